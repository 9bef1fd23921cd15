package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"
)

// StoredDeadLetter is a dead letter where it lies.
type StoredDeadLetter struct {
	// Number is its sequence in the stream of dead letters, by which it is
	// called.
	Number uint64 `json:"number"`
	DeadLetter
}

// ErrNoDeadLetter: no dead letter has this number.
var ErrNoDeadLetter = errors.New("no such dead letter")

// DeadLetters lists the dead letters of a kind, oldest first; an empty kind
// lists all.
func (b *Bus) DeadLetters(ctx context.Context, kind string) iter.Seq2[StoredDeadLetter, error] {
	filter := kind
	if kind == "" {
		filter = "*"
	}
	return func(yield func(StoredDeadLetter, error) bool) {
		stream, err := b.Stream(ctx, Dead)
		if err != nil {
			yield(StoredDeadLetter{}, fmt.Errorf("list dead letters: %w", err))
			return
		}
		for next := uint64(1); ; {
			msg, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(b.Dead(filter, "*")))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return
			}
			if err != nil {
				yield(StoredDeadLetter{}, fmt.Errorf("list dead letters: %w", err))
				return
			}
			next = msg.Sequence + 1
			letter, ok := b.unearth(msg)
			if ok && !yield(letter, nil) {
				return
			}
		}
	}
}

// DeadLetter returns the dead letter of a number, or ErrNoDeadLetter.
func (b *Bus) DeadLetter(ctx context.Context, number uint64) (StoredDeadLetter, error) {
	stream, err := b.Stream(ctx, Dead)
	if err != nil {
		return StoredDeadLetter{}, fmt.Errorf("dead letter %d: %w", number, err)
	}
	msg, err := stream.GetMsg(ctx, number)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return StoredDeadLetter{}, fmt.Errorf("dead letter %d: %w", number, ErrNoDeadLetter)
	}
	if err != nil {
		return StoredDeadLetter{}, fmt.Errorf("dead letter %d: %w", number, err)
	}
	letter, ok := b.unearth(msg)
	if !ok {
		return StoredDeadLetter{}, fmt.Errorf("dead letter %d: %w", number, ErrNoDeadLetter)
	}
	return letter, nil
}

// unearth reads a message of the stream; bodies that lie apart, and what others
// wrote there, are no letters.
func (b *Bus) unearth(msg *jetstream.RawStreamMsg) (StoredDeadLetter, bool) {
	tokens := b.Split(msg.Subject)
	if len(tokens) != 3 || tokens[1] == DeadBody {
		return StoredDeadLetter{}, false
	}
	letter := StoredDeadLetter{Number: msg.Sequence}
	err := json.Unmarshal(msg.Data, &letter.DeadLetter)
	letter.Kind, letter.Name = tokens[1], tokens[2] // not what the body says
	return letter, err == nil && letter.Subject != ""
}

// RemoveDeadLetter removes a dead letter for good.
func (b *Bus) RemoveDeadLetter(ctx context.Context, letter StoredDeadLetter) error {
	stream, err := b.Stream(ctx, Dead)
	if err != nil {
		return fmt.Errorf("remove dead letter %d: %w", letter.Number, err)
	}
	for _, seq := range []uint64{letter.Number, letter.BodySequence} {
		if seq == 0 {
			continue
		}
		if err := stream.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("remove dead letter %d: %w", letter.Number, err)
		}
	}
	return nil
}

// retriable reports why a letter cannot be retried. It lies where anybody with
// the right to write dead letters may have put it, so it must not choose freely
// where an operator publishes.
func (b *Bus) retriable(l DeadLetter) error {
	kind, name := b.deadName(l.Subject)
	switch {
	case b.Split(l.Subject) == nil || CheckSubject(l.Subject) != nil || kind != l.Kind || name != l.Name:
		return fmt.Errorf("its subject %.200q is not that of a %s of %.100q", l.Subject, l.Kind, l.Name)
	case kind == DeadResult:
		return errors.New("a result that could not be notified stands on the bus still, and is not published again; remove the letter")
	}
	return nil
}

// RetryDeadLetter retries the message of a dead letter, and removes the letter once
// the message is stored. A crash in between leaves both; trying again then does
// not publish it a second time, within the stream's window for duplicates.
func (b *Bus) RetryDeadLetter(ctx context.Context, letter StoredDeadLetter) error {
	err := b.retriable(letter.DeadLetter)
	if err == nil {
		err = b.republish(ctx, letter.DeadLetter)
	}
	if err != nil {
		return fmt.Errorf("retry dead letter %d: %w", letter.Number, err)
	}
	return b.RemoveDeadLetter(ctx, letter)
}
