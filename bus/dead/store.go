package dead

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

// Report is called after a message became a dead letter and before it is removed from its
// stream. The letter has no body. While the call fails, the message stays and the call is
// repeated.
type Report func(ctx context.Context, d *consume.Delivery, letter Stored) error

// Consume is consume.Run with dead letters: it stores the messages that are given up. report
// may be nil.
func Consume(ctx context.Context, b *bus.Bus, c bus.Consumer, cfg consume.Config, report Report, handler consume.Handler) error {
	cfg.GiveUp = func(ctx context.Context, d *consume.Delivery, code string, reason error) error {
		letter := Letter{Code: code, Subject: d.Subject, Sequence: d.Sequence, ID: d.ID(), Attempts: d.Attempt, ArgsIn: d.Header(bus.ArgsHeader),
			Header: bus.KeptHeader(d.Header)}
		stored, err := store(ctx, b, c.Stream, letter, d.Body, reason)
		if err != nil {
			return fmt.Errorf("store dead letter of %q: %w", d.Subject, err)
		}
		if report == nil {
			return nil
		}
		if err := report(ctx, d, stored); err != nil {
			return fmt.Errorf("report dead letter of %q: %w", d.Subject, err)
		}
		return nil
	}
	return consume.Run(ctx, b, c, cfg, handler)
}

// maxReason limits the length of a reason, which may quote anything.
const maxReason = 4 << 10

// GiveUp makes a stored message a dead letter and removes it from its stream.
func GiveUp(ctx context.Context, b *bus.Bus, stream string, m bus.Stored, attempts int, code string, reason error) error {
	letter := Letter{Code: code, Subject: m.Subject, Sequence: m.Sequence, ID: m.ID(), Attempts: attempts, Header: bus.KeptHeader(m.Header.Get)}
	if _, err := store(ctx, b, stream, letter, m.Body, reason); err != nil {
		return fmt.Errorf("store dead letter of %q: %w", m.Subject, err)
	}
	return b.Delete(ctx, stream, m.Sequence)
}

// store publishes the letter of a message, unless it has one, and returns it without its body.
func store(ctx context.Context, b *bus.Bus, stream string, letter Letter, message []byte, reason error) (Stored, error) {
	text := reason.Error()
	letter.Reason, letter.At = strings.ToValidUTF8(text[:min(len(text), maxReason)], ""), time.Now().UTC()
	letter.Kind, letter.Name = kindOf(b.Subjects, letter.Subject)
	body, err := letter.encode(ctx, b, message)
	if err != nil {
		return Stored{}, err
	}
	ack, err := b.Publish(ctx, bus.Message{
		Subject: b.Dead(letter.Kind, letter.Name), Body: body, Key: fmt.Sprintf("dead-%s-%d", stream, letter.Sequence),
		Same: func(body []byte) bool { // is it a letter of the same message?
			var other Letter
			return json.Unmarshal(body, &other) == nil && other.Subject == letter.Subject && other.Sequence == letter.Sequence && other.ID == letter.ID
		},
	})
	if err != nil || !ack.Duplicate {
		return Stored{Number: ack.Sequence, Letter: letter}, err
	}
	stored, err := Get(ctx, b, ack.Sequence) // the first reason counts
	stored.Body, stored.Gzip = nil, nil
	return stored, err
}
