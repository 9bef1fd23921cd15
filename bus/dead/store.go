package dead

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// Report is called after a message became a dead letter and before it is removed from its
// stream. The letter has no body. While the call fails, the message stays and the call is
// repeated.
type Report func(ctx context.Context, d *bus.Delivery, letter Stored) error

// Consume is bus.Consume with dead letters: it stores the messages that are given up. report
// may be nil.
func Consume(ctx context.Context, b *bus.Bus, c bus.Consumer, cfg bus.ConsumeConfig, report Report, handler bus.Handler) error {
	cfg.GiveUp = func(ctx context.Context, d *bus.Delivery, code string, reason error) error {
		stored, err := store(ctx, b, c.Stream, d, code, reason)
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
	return b.Consume(ctx, c, cfg, handler)
}

// maxReason limits the length of a reason, which may quote anything.
const maxReason = 4 << 10

// store publishes the letter of a message, unless it has one, and returns it without its body.
func store(ctx context.Context, b *bus.Bus, stream string, d *bus.Delivery, code string, reason error) (Stored, error) {
	text := reason.Error()
	letter := Letter{
		Code: code, Reason: strings.ToValidUTF8(text[:min(len(text), maxReason)], ""),
		Subject: d.Subject, Sequence: d.Sequence, ID: d.ID(), Attempts: d.Attempt, At: time.Now().UTC(),
		ArgsIn: d.Header(bus.ArgsHeader),
	}
	letter.Kind, letter.Name = kindOf(b.Subjects, d.Subject)
	body, err := letter.encode(ctx, b, d.Body)
	if err != nil {
		return Stored{}, err
	}
	ack, err := b.Publish(ctx, bus.Message{
		Subject: b.Dead(letter.Kind, letter.Name), Body: body, Key: fmt.Sprintf("dead-%s-%d", stream, d.Sequence),
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
