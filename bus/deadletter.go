package bus

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Kinds of dead letters.
const (
	DeadCall         = "call"
	DeadTick         = "tick"
	DeadNotification = "notification"
	DeadResult       = "result"
)

// Codes of dead letters; handlers may have others.
const (
	CodeUndecodable = "undecodable"        // nobody can say what it is
	CodePoison      = "poison"             // its handler never came to a verdict
	CodeExhausted   = "attempts_exhausted" // its last attempt failed
)

// DeadLetter is what remains of a message that was given up on: why, and the
// message itself, so that it can be retried.
type DeadLetter struct {
	// Kind is one of the constants above; Name is the tool, the schedule or the
	// channel.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Code and Reason say why, to machines and to people.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Subject, Sequence and ID say where and what it was.
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"sequence"`
	ID       string    `json:"id"`
	Attempts int       `json:"attempts"`
	At       time.Time `json:"at"`
	// Body is the message as it came, white space aside, if it is JSON. Gzip (base64 in JSON) is
	// the message if it is not, or would not fit. BodySequence is where in the
	// stream of dead letters it stands, as it came, if it fits in no letter.
	Body         json.RawMessage `json:"body,omitempty"`
	Gzip         []byte          `json:"gzip,omitempty"`
	BodySequence uint64          `json:"body_sequence,omitempty"`
}

// DeadBody is the kind under which the bodies are kept that fit in no letter.
// What stands there is no letter.
const DeadBody = "body"

// maxReason bounds the text of a reason, which may quote anything.
const maxReason = 4 << 10

// settleTimeout bounds what is published on the way out, when the handler's
// context may have ended.
const settleTimeout = 10 * time.Second

// bury keeps a dead letter and takes the message off its stream; in this order,
// so that a crash between them leaves a second delivery and not a loss.
func (k *consumption) bury(d *Delivery, why *rejection) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.work), settleTimeout)
	defer cancel()
	letter := DeadLetter{
		Code: why.code, Reason: strings.ToValidUTF8(why.Error()[:min(len(why.Error()), maxReason)], ""),
		Subject: d.Subject, Sequence: d.Sequence, ID: d.ID(), Attempts: d.Attempt, At: time.Now().UTC(),
	}
	letter.Kind, letter.Name = k.bus.deadName(d.Subject)
	buried, err := k.keep(ctx, d, letter)
	if err != nil {
		return fmt.Errorf("bury %q: %w", d.Subject, err)
	}
	if k.cfg.OnDeadLetter != nil {
		if err := k.cfg.OnDeadLetter(ctx, d, buried); err != nil {
			return fmt.Errorf("tell that %q was given up on: %w", d.Subject, err)
		}
	}
	return d.term(buried.Code)
}

// keep publishes a letter, unless the message has one, and returns the one that
// stands, without its body. The letter's key ages, so where the message may have
// been given up on before, the letters are asked.
func (k *consumption) keep(ctx context.Context, d *Delivery, letter DeadLetter) (StoredDeadLetter, error) {
	if d.Attempt > 1 && letter.Code != CodeExhausted {
		stands, ok, err := k.bus.letterOf(ctx, d, letter)
		if ok || err != nil {
			return stands, err
		}
	}
	body, err := k.bus.encodeLetter(ctx, letter, d.Body)
	if err != nil {
		return StoredDeadLetter{}, err
	}
	key := fmt.Sprintf("dead-%s-%d", k.consumer.Stream, d.Sequence)
	ack, err := k.bus.Publish(ctx, Message{Subject: k.bus.Dead(letter.Kind, letter.Name), Body: body, Key: key})
	return StoredDeadLetter{Number: ack.Sequence, DeadLetter: letter}, err
}

// maxLetters is how many letters, and KiB of them, letterOf looks at; behind so
// many another one for the same message does little harm.
const maxLetters = 20_000

// letterOf looks for the letter of the message of d, among those that are not
// older than the message.
func (b *Bus) letterOf(ctx context.Context, d *Delivery, like DeadLetter) (found StoredDeadLetter, ok bool, err error) {
	_, err = b.scanFrom(ctx, Dead, b.Dead(like.Kind, like.Name), d.Published, maxLetters, maxLetters<<10, func(m Stored) bool {
		var l DeadLetter
		if json.Unmarshal(m.Body, &l) != nil || l.Subject != d.Subject || l.Sequence != d.Sequence || l.ID != d.ID() {
			return true
		}
		l.Kind, l.Name, l.Body, l.Gzip = like.Kind, like.Name, nil, nil
		found, ok = StoredDeadLetter{Number: m.Sequence, DeadLetter: l}, true
		return false
	})
	return found, ok, err
}

// deadName says what a subject's message is and what it is called. Tokens that
// others chose may be unfit for a subject of ours.
func (s Subjects) deadName(subject string) (kind, name string) {
	tokens := s.Split(subject)
	if len(tokens) < 2 {
		return DeadCall, "unknown"
	}
	switch tokens[0] {
	case "tick":
		kind = DeadTick
	case "notify":
		kind = DeadNotification
	case "result", "completion":
		kind = DeadResult
	default:
		kind = DeadCall
	}
	name = tokens[len(tokens)-1]
	if CheckSubject(name) != nil {
		name = "unsafe"
	}
	return kind, name
}

// encodeLetter puts body into the letter and returns it, fit to be published.
func (b *Bus) encodeLetter(ctx context.Context, l DeadLetter, body []byte) (out []byte, err error) {
	limit := int(b.nc.MaxPayload()) - 1024 // leaves room for headers
	if json.Valid(body) {
		l.Body = body
		if out, err = Encode(l); err != nil || len(out) <= limit {
			return out, err
		}
		l.Body = nil
	}
	if l.Gzip, err = compress(body); err != nil {
		return nil, err
	}
	if out, err = Encode(l); err != nil || len(out) <= limit {
		return out, err
	}
	l.Gzip = nil
	// Without a key, because the body may leave no room for a header; a body
	// that is kept twice does no harm.
	ack, err := b.Publish(ctx, Message{Subject: b.Dead(DeadBody, l.Name), Body: body})
	if err != nil {
		return nil, err
	}
	l.BodySequence = ack.Sequence
	return Encode(l)
}

func compress(b []byte) ([]byte, error) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	_, err := zw.Write(b)
	if err := errors.Join(err, zw.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// DeadMessage returns the message of a dead letter as it came.
func (b *Bus) DeadMessage(ctx context.Context, l DeadLetter) ([]byte, error) {
	switch {
	case l.BodySequence != 0:
		s, err := b.Stream(ctx, Dead)
		if err != nil {
			return nil, err
		}
		msg, err := s.GetMsg(ctx, l.BodySequence)
		if err != nil {
			return nil, fmt.Errorf("body of dead letter %q: %w", l.ID, err)
		}
		return msg.Data, nil
	case l.Gzip != nil:
		zr, err := gzip.NewReader(bytes.NewReader(l.Gzip))
		if err != nil {
			return nil, fmt.Errorf("body of dead letter %q: %w", l.ID, err)
		}
		return io.ReadAll(io.LimitReader(zr, 64<<20))
	}
	return l.Body, nil
}

// Retry publishes the message of a dead letter again, under the id it had and
// with its attempts counted from the start.
func (b *Bus) republish(ctx context.Context, l DeadLetter) error {
	body, err := b.DeadMessage(ctx, l)
	if err != nil {
		return err
	}
	_, err = b.Publish(ctx, Message{
		Subject: l.Subject, Body: body,
		Header: nats.Header{idHeader: {l.ID}},
		Key:    fmt.Sprintf("retry-%d-%d", l.Sequence, l.At.UnixNano()),
	})
	if errors.Is(err, ErrTooLarge) { // it came without headers; its id, if any, is in the body
		_, err = b.Publish(ctx, Message{Subject: l.Subject, Body: body})
	}
	return err
}
