package dead

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
)

// PublishesAtOnce is how many letters are published again at once: the server stores many with one sync.
const PublishesAtOnce = 128

// Each calls do for each letter, for atOnce of them at a time, and then done in the order of the letters.
// Letters of the same chat of a channel are handled one after the other, so that a retry keeps
// their order.
func Each(letters []Stored, atOnce int, do func(Stored) error, done func(Stored, error)) {
	results := make([]chan error, len(letters))
	var groups [][]int
	chats := map[string]int{} // the group of a chat, by its subject
	for i, l := range letters {
		results[i] = make(chan error, 1)
		if l.Kind != bus.DeadNotification {
			groups = append(groups, []int{i})
			continue
		}
		group, ok := chats[l.Subject]
		if !ok {
			group = len(groups)
			chats[l.Subject], groups = group, append(groups, nil)
		}
		groups[group] = append(groups[group], i)
	}
	var doing errgroup.Group
	doing.SetLimit(atOnce)
	go func() {
		for _, group := range groups {
			doing.Go(func() error {
				for _, i := range group {
					results[i] <- do(letters[i])
				}
				return nil
			})
		}
	}()
	for i, l := range letters {
		done(l, <-results[i])
	}
}

// Remove deletes a dead letter.
func Remove(ctx context.Context, b *bus.Bus, l Stored) error {
	sequences := []uint64{l.Number}
	if l.BodySequence != 0 {
		switch _, err := l.storedBody(ctx, b); {
		case err == nil:
			sequences = append(sequences, l.BodySequence)
		case !errors.Is(err, ErrNoBody):
			return fmt.Errorf("remove dead letter %d: %w", l.Number, err)
		}
	}
	for _, sequence := range sequences {
		if err := b.Delete(ctx, bus.Dead, sequence); err != nil {
			return fmt.Errorf("remove dead letter %d: %w", l.Number, err)
		}
	}
	return nil
}

// RemoveAll deletes dead letters and calls done for each, in their order. The server syncs
// each request, so one purge removes the oldest letters of a kind and name.
func RemoveAll(ctx context.Context, b *bus.Bus, letters []Stored, done func(Stored, error)) {
	subjects := map[string]map[uint64]bool{}
	for _, l := range letters {
		subject := b.Dead(l.Kind, l.Name)
		if subjects[subject] == nil {
			subjects[subject] = map[uint64]bool{}
		}
		subjects[subject][l.Number] = true
	}
	purged := map[string]uint64{} // letters before this number are removed
	for subject, numbers := range subjects {
		if until, err := purge(ctx, b, subject, numbers); err == nil { // after an error, letters are removed one by one
			purged[subject] = until
		}
	}
	Each(letters, bus.DeletesAtOnce, func(l Stored) error {
		if l.Number < purged[b.Dead(l.Kind, l.Name)] && l.BodySequence == 0 {
			return nil
		}
		return Remove(ctx, b, l)
	}, done)
}

// purge removes the messages with these numbers from a subject, up to the first message that
// is not among them, and returns the number before which all are removed.
func purge(ctx context.Context, b *bus.Bus, subject string, numbers map[uint64]bool) (until uint64, err error) {
	if len(numbers) == 1 {
		return 0, nil
	}
	for m, err := range b.Read(ctx, bus.Dead, bus.Query{Subject: subject}) {
		if err != nil {
			return 0, err
		}
		if !numbers[m.Sequence] {
			break
		}
		until = m.Sequence + 1
	}
	if until == 0 {
		return 0, nil
	}
	return until, b.WatchDenial(ctx, b.API().Subject("STREAM.PURGE."+b.StreamName(bus.Dead)), func(ctx context.Context) error {
		return b.Purge(ctx, bus.Dead, subject, until)
	})
}

// CheckRetriable returns an error if the letter cannot be retried. A client that may
// write dead letters can forge one, so the subject is checked before a retry changes
// anything.
func CheckRetriable(s bus.Subjects, l Stored) error {
	kind, name := kindOf(s, l.Subject)
	switch {
	case s.Split(l.Subject) == nil || bus.CheckSubject(l.Subject) != nil || kind != l.Kind || name != l.Name:
		return fmt.Errorf("the letter's kind %s and name %.100q do not match its subject %.200q", l.Kind, l.Name, l.Subject)
	case kind == bus.DeadResult:
		return errors.New("its result is still stored and needs no retry; remove the letter")
	}
	return nil
}

// Republish publishes the message of a dead letter again, with its id, and keeps the letter,
// which the caller removes. A crash in between leaves both. A second retry within the
// duplicate window of the stream then does not publish the message again. If it does so because a
// notification was delivered meanwhile, bus.OnceHeader marks it as a copy. The attempts start
// again from 1.
func Republish(ctx context.Context, b *bus.Bus, l Stored) error {
	err := CheckRetriable(b.Subjects, l)
	if err == nil {
		err = republish(ctx, b, l.Letter)
	}
	if err != nil {
		return fmt.Errorf("retry dead letter %d: %w", l.Number, err)
	}
	return nil
}

// republish publishes the message of a letter. The subject of a call may still hold that
// message, which is settled. A crash while it is replaced leaves the letter, which has it.
func republish(ctx context.Context, b *bus.Bus, l Letter) error {
	body, err := l.Message(ctx, b)
	if err != nil {
		return err
	}
	m := bus.Message{Subject: l.Subject, Body: body, Header: bus.KeptHeader(l.Header.Get), Key: fmt.Sprintf("retry-%d-%d", l.Sequence, l.At.UnixNano())}
	if l.ArgsIn != "" {
		m.Header.Set(bus.ArgsHeader, l.ArgsIn)
	}
	err = b.Republish(ctx, m, l.ID, func(stored uint64) bool { return stored == l.Sequence })
	if errors.Is(err, bus.ErrTooLarge) { // with the headers that the original did not have; its id, if any, is in the body
		_, err = b.Publish(ctx, bus.Message{Subject: l.Subject, Body: body, Header: m.Header})
	}
	if errors.Is(err, bus.ErrSubjectExists) {
		return fmt.Errorf("the call was submitted again and is queued or running; remove the letter: %w", err)
	}
	return err
}
