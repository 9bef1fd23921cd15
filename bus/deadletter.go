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

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
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
	CodeUndecodable = "undecodable"        // the message cannot be decoded
	CodePoison      = "poison"             // every worker that handled the message died or could not settle it
	CodeExhausted   = "attempts_exhausted" // the last attempt failed
)

// DeadLetter is a message that was rejected or whose last attempt failed, with the
// reason. It can be retried.
type DeadLetter struct {
	// Kind is one of the constants above; Name is the tool, the schedule or the
	// channel.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Code is the reason for programs, Reason the reason for people.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Subject, Sequence and ID are those of the message.
	Subject  string    `json:"subject"`
	Sequence uint64    `json:"sequence"`
	ID       string    `json:"id"`
	Attempts int       `json:"attempts"`
	At       time.Time `json:"at"`
	// Body is the message if it is JSON, without extra white space. Gzip (base64 in
	// JSON) is the message if it is not JSON or does not fit into Body. If it does
	// not fit into the letter, BodySequence is its sequence in the dead-letter stream.
	Body         json.RawMessage `json:"body,omitempty"`
	Gzip         []byte          `json:"gzip,omitempty"`
	BodySequence uint64          `json:"body_sequence,omitempty"`
}

// DeadBody is the kind of the messages that store the bodies that do not fit into
// their letters.
const DeadBody = "body"

// maxReason limits the length of a reason, which may quote anything.
const maxReason = 4 << 10

// settleTimeout limits publishes after the context of the handler has ended.
const settleTimeout = 10 * time.Second

// deadLetter stores a dead letter and then removes the message from its stream. In
// this order, a crash between the two leads to a redelivery and not to a loss.
func (k *consumption) deadLetter(d *Delivery, why *rejection) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.work), settleTimeout)
	defer cancel()
	letter := DeadLetter{
		Code: why.code, Reason: strings.ToValidUTF8(why.Error()[:min(len(why.Error()), maxReason)], ""),
		Subject: d.Subject, Sequence: d.Sequence, ID: d.ID(), Attempts: d.Attempt, At: time.Now().UTC(),
	}
	letter.Kind, letter.Name = k.bus.deadName(d.Subject)
	stored, err := k.storeDeadLetter(ctx, d, letter)
	if err != nil {
		return fmt.Errorf("store dead letter of %q: %w", d.Subject, err)
	}
	if k.cfg.OnDeadLetter != nil {
		if err := k.cfg.OnDeadLetter(ctx, d, stored); err != nil {
			return fmt.Errorf("report dead letter of %q: %w", d.Subject, err)
		}
	}
	if err := d.term(stored.Code); err != nil {
		return err
	}
	if k.consumer.Trim != "" && CheckSubject(d.Subject) != nil {
		return k.bus.DeleteMessage(ctx, k.consumer.Stream, d.Sequence) // no purge matches a wildcard in its subject
	}
	k.trimmer.settled(d.Sequence, len(d.Body))
	return nil
}

// storeDeadLetter publishes a letter, unless the message has one, and returns the
// stored letter without its body. The stream forgets the key of a letter after a
// while, so storeDeadLetter searches the letters if the message was delivered before.
func (k *consumption) storeDeadLetter(ctx context.Context, d *Delivery, letter DeadLetter) (StoredDeadLetter, error) {
	if d.Redelivered && letter.Code != CodeExhausted {
		stored, ok, err := k.bus.findDeadLetter(ctx, d, letter)
		if ok || err != nil {
			return stored, err
		}
	}
	body, err := k.bus.encodeLetter(ctx, letter, d.Body)
	if err != nil {
		return StoredDeadLetter{}, err
	}
	key := fmt.Sprintf("dead-%s-%d", k.consumer.Stream, d.Sequence)
	ack, err := k.bus.Publish(ctx, Message{Subject: k.bus.Dead(letter.Kind, letter.Name), Body: body, Key: key, Same: letter.isOf})
	return StoredDeadLetter{Number: ack.Sequence, DeadLetter: letter}, err
}

// isOf reports whether a stored letter is of the same message.
func (l DeadLetter) isOf(stored []byte) bool {
	var other DeadLetter
	return json.Unmarshal(stored, &other) == nil && other.Subject == l.Subject && other.Sequence == l.Sequence && other.ID == l.ID
}

// maxLetters is how many letters, and KiB of letters, findDeadLetter reads. If there
// are more, a second letter for the same message does little harm.
const maxLetters = 20_000

// findDeadLetter searches for the letter of the message of d, among those that are
// not older than the message.
func (b *Bus) findDeadLetter(ctx context.Context, d *Delivery, like DeadLetter) (found StoredDeadLetter, ok bool, err error) {
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

// deadName returns the kind and the name of a dead letter. A token of a client may
// not be valid in the subject of a letter.
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
	if kind == DeadCall && len(tokens) > 2 {
		name = tokens[2]
	}
	if CheckSubject(name) != nil {
		name = "unsafe"
	}
	return kind, name
}

// encodeLetter encodes the letter with body, in a form that fits into a message.
func (b *Bus) encodeLetter(ctx context.Context, l DeadLetter, body []byte) (out []byte, err error) {
	limit := int(b.nc.MaxPayload()) - 1024 // for headers
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
	// Without a key, because a header may not fit. A second copy of the body does no
	// harm.
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

// DeadMessage returns the body of the message of a dead letter.
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

// republish publishes the message of a dead letter again, with its id. Its attempts
// start again from 1. The subject of a call may still hold the message of the letter,
// which is settled, so republish deletes that first. A crash in between leaves the letter,
// which has the message.
func (b *Bus) republish(ctx context.Context, l DeadLetter) error {
	body, err := b.DeadMessage(ctx, l)
	if err != nil {
		return err
	}
	m := Message{
		Subject: l.Subject, Body: body,
		Header: republished(l.ID),
		Key:    fmt.Sprintf("retry-%d-%d", l.Sequence, l.At.UnixNano()),
	}
	if _, isCall := b.SplitCall(l.Subject); isCall {
		if stored, err := b.removeMessage(ctx, Calls, l.Subject, l.Sequence, m.Key); stored || err != nil {
			return err
		}
	}
	_, err = b.Publish(ctx, m)
	if errors.Is(err, ErrTooLarge) { // the original had no headers; its id, if any, is in the body
		_, err = b.Publish(ctx, Message{Subject: l.Subject, Body: body})
	}
	if errors.Is(err, ErrSubjectExists) {
		return fmt.Errorf("the call was submitted again and is queued or running; remove the letter: %w", err)
	}
	return err
}

// removeMessage deletes the message with a sequence if it is the one on the subject. It
// reports whether the subject holds the message with the key instead.
func (b *Bus) removeMessage(ctx context.Context, stream, subject string, sequence uint64, key string) (isStored bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	m, err := b.api.GetFromLeader(ctx, b.StreamName(stream), jsapi.Get{LastBySubject: subject})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, err
	case m.Header.Get(jetstream.MsgIDHeader) == key:
		return true, nil
	case m.Sequence != sequence:
		return false, nil
	}
	return false, b.DeleteMessage(ctx, stream, sequence)
}
