package dead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stevedore-bus/stevedore/bus"
)

// ErrNone means that no dead letter has the number.
var ErrNone = errors.New("no such dead letter")

// List iterates over the dead letters of a kind with numbers after a number, oldest first. An
// empty kind means all.
func List(ctx context.Context, b *bus.Bus, kind string, after uint64) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for m, err := range b.Read(ctx, bus.Dead, bus.Query{Subject: b.Dead(cmp.Or(kind, "*"), "*"), From: after + 1}) {
			if err != nil {
				yield(Stored{}, fmt.Errorf("list dead letters: %w", err))
				return
			}
			if letter, ok := decode(b.Subjects, m); ok && !yield(letter, nil) {
				return
			}
		}
	}
}

// ListBack returns the newest limit dead letters before a number (0: the newest), newest
// first, without their messages. next is where a later call continues; it is 0 if there are
// no more.
func ListBack(ctx context.Context, b *bus.Bus, before uint64, limit int) (letters []Stored, next uint64, err error) {
	letters = []Stored{}
	for m, err := range b.Read(ctx, bus.Dead, bus.Back(b.Dead("*", "*"), before)) {
		if err != nil {
			return nil, 0, err
		}
		if letter, ok := decode(b.Subjects, m); ok {
			letter.Body, letter.Gzip = nil, nil
			letters = append(letters, letter)
		}
		if len(letters) >= limit {
			return letters, m.Sequence, nil
		}
	}
	return letters, 0, nil
}

// Get returns the dead letter with a number, or ErrNone.
func Get(ctx context.Context, b *bus.Bus, number uint64) (Stored, error) {
	for m, err := range b.Read(ctx, bus.Dead, one(number)) {
		if err != nil {
			return Stored{}, fmt.Errorf("dead letter %d: %w", number, err)
		}
		if letter, ok := decode(b.Subjects, m); ok {
			return letter, nil
		}
	}
	return Stored{}, fmt.Errorf("dead letter %d: %w", number, ErrNone)
}
