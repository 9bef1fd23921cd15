// Package dead keeps the dead letters: messages that are no longer retried, with the reason.
// Consume stores them (store.go). They can be listed (list.go), and retried or removed
// (retry.go).
//
// A letter is stored on stevedore.dead.<kind>.<name>, and its sequence there is its number.
// It contains the message, unless that does not fit: then the message is a message of its own
// in the same stream, of the kind bus.DeadBody. The stream removes letters after 30 days, and
// the oldest ones first if it is full, so that it never stops other work.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package dead

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Letter is a message that was rejected or whose last attempt failed, with the reason.
type Letter struct {
	// Kind is such as bus.DeadCall; Name is the tool, the schedule or the channel.
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
	// ArgsIn is the artifact that has the arguments of the call, if the message does not contain them.
	ArgsIn string `json:"args_in,omitempty"`
	// Header is what the message has again after a retry (bus.KeptHeader).
	Header nats.Header `json:"header,omitempty"`
}

// Stored is a dead letter in its stream.
type Stored struct {
	// Number is its sequence in the stream. It identifies the letter.
	Number uint64 `json:"number"`
	Letter
}

// encode encodes the letter with body, in a form that fits into a message.
func (l Letter) encode(ctx context.Context, b *bus.Bus, body []byte) (out []byte, err error) {
	limit := int(b.Conn().MaxPayload()) - 1024 // for headers
	if json.Valid(body) {
		l.Body = body
		if out, err = bus.Encode(l); err != nil || len(out) <= limit {
			return out, err
		}
		l.Body = nil
	}
	if l.Gzip, err = compress(body); err != nil {
		return nil, err
	}
	if out, err = bus.Encode(l); err != nil || len(out) <= limit {
		return out, err
	}
	l.Gzip = nil
	// Without a key, because a header may not fit. A second copy of the body does no
	// harm.
	ack, err := b.Publish(ctx, bus.Message{Subject: l.bodySubject(b), Body: body})
	if err != nil {
		return nil, err
	}
	l.BodySequence = ack.Sequence
	return bus.Encode(l)
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

// bodySubject is that of the body that does not fit into the letter of a message. A client that may write dead letters can
// name any sequence in one, so the subject says whose body it is.
func (l Letter) bodySubject(b *bus.Bus) string { return b.Dead(bus.DeadBody, tools.Token(l.Subject)) }

// storedBody returns the body that does not fit into the letter, or ErrNoBody.
func (l Letter) storedBody(ctx context.Context, b *bus.Bus) ([]byte, error) {
	for m, err := range b.Read(ctx, bus.Dead, one(l.BodySequence)) {
		// The last form is that of an earlier version. A client can also name its letter like the body of another one.
		if err != nil || m.Subject == l.bodySubject(b) || m.Subject == b.Dead(bus.DeadBody, l.Name) && !tools.IsHash(l.Name) {
			return m.Body, err
		}
	}
	return nil, fmt.Errorf("dead letter %q: %w", l.ID, ErrNoBody)
}

// Message returns the body of the message of a letter.
func (l Letter) Message(ctx context.Context, b *bus.Bus) ([]byte, error) {
	switch {
	case l.BodySequence != 0:
		return l.storedBody(ctx, b)
	case l.Gzip != nil:
		return l.decompress()
	}
	return l.Body, nil
}

func (l Letter) decompress() ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(l.Gzip))
	if err != nil {
		return nil, fmt.Errorf("body of dead letter %q: %w", l.ID, err)
	}
	return io.ReadAll(io.LimitReader(zr, 64<<20))
}

// one returns the query for a single message of the stream.
func one(sequence uint64) bus.Query { return bus.Query{From: sequence, Before: sequence + 1} }

// decode decodes a message of the stream. ok is false for the body of another letter. A message that
// is no letter counts as one that can only be removed.
func decode(s bus.Subjects, m bus.Stored) (l Stored, ok bool) {
	tokens := s.Split(m.Subject)
	if len(tokens) != 3 || tokens[1] == bus.DeadBody {
		return Stored{}, false
	}
	l.Number = m.Sequence
	if json.Unmarshal(m.Body, &l.Letter) != nil || l.Subject == "" {
		l.Letter = Letter{At: m.At, Reason: "this is no dead letter: another program stored it; remove it"}
		l.Gzip, _ = compress(m.Body) // in memory
	}
	l.Kind, l.Name = tokens[1], tokens[2] // the subject counts, not the body
	return l, true
}

// kindOf returns the kind and the name of the letter of a message with a subject. A token of
// a client may not be valid in the subject of a letter.
func kindOf(s bus.Subjects, subject string) (kind, name string) {
	tokens := s.Split(subject)
	if len(tokens) < 2 {
		return bus.DeadCall, "unknown"
	}
	switch tokens[0] {
	case "tick":
		kind = bus.DeadTick
	case "notify":
		kind = bus.DeadNotification
		tokens = tokens[:2] // the channel; the chat follows
	case "result", "completion", "report":
		kind = bus.DeadResult
	default:
		kind = bus.DeadCall
	}
	name = tokens[len(tokens)-1]
	if kind == bus.DeadCall && len(tokens) > 2 {
		name = tokens[2]
	}
	if bus.CheckSubject(name) != nil {
		name = "unsafe"
	}
	return kind, name
}
