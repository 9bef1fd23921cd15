package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// StoredDeadLetter is a dead letter in its stream.
type StoredDeadLetter struct {
	// Number is its sequence in the stream. It identifies the letter.
	Number uint64 `json:"number"`
	DeadLetter
}

// ErrNoDeadLetter means that no dead letter has the number.
var ErrNoDeadLetter = errors.New("no such dead letter")

// DeadLetters lists the dead letters of a kind, oldest first; an empty kind
// lists all.
func (b *Bus) DeadLetters(ctx context.Context, kind string) iter.Seq2[StoredDeadLetter, error] {
	return b.DeadLettersAfter(ctx, kind, 0)
}

// DeadLettersAfter is DeadLetters without those up to a number.
func (b *Bus) DeadLettersAfter(ctx context.Context, kind string, number uint64) iter.Seq2[StoredDeadLetter, error] {
	filter := kind
	if kind == "" {
		filter = "*"
	}
	return func(yield func(StoredDeadLetter, error) bool) {
		if _, err := b.Stream(ctx, Dead); err != nil { // reports a missing stream or permission
			yield(StoredDeadLetter{}, fmt.Errorf("list dead letters: %w", err))
			return
		}
		get := jsapi.Get{NextBySubject: b.Dead(filter, "*"), Sequence: number + 1, MaxBytes: scanBytes}
		for m, err := range b.api.Messages(ctx, b.StreamName(Dead), get) {
			if err != nil {
				yield(StoredDeadLetter{}, fmt.Errorf("list dead letters: %w", err))
				return
			}
			letter, ok := b.decodeDeadLetter(m.Subject, m.Sequence, m.Data)
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
	letter, ok := b.decodeDeadLetter(msg.Subject, msg.Sequence, msg.Data)
	if !ok {
		return StoredDeadLetter{}, fmt.Errorf("dead letter %d: %w", number, ErrNoDeadLetter)
	}
	return letter, nil
}

// decodeDeadLetter decodes a message of the stream. ok is false for the body of
// another letter and for a message that is not a letter.
func (b *Bus) decodeDeadLetter(subject string, sequence uint64, body []byte) (letter StoredDeadLetter, ok bool) {
	tokens := b.Split(subject)
	if len(tokens) != 3 || tokens[1] == DeadBody {
		return StoredDeadLetter{}, false
	}
	letter.Number = sequence
	err := json.Unmarshal(body, &letter.DeadLetter)
	letter.Kind, letter.Name = tokens[1], tokens[2] // the subject counts, not the body
	return letter, err == nil && letter.Subject != ""
}

// lettersAtOnce is how many dead letters EachDeadLetter handles at once.
const lettersAtOnce = 64

// EachDeadLetter calls do for each letter, for many at once, and then done in the order
// of the letters. Letters of the same chat of a channel are handled one after the other,
// so that a retry keeps their order.
func EachDeadLetter(letters []StoredDeadLetter, do func(StoredDeadLetter) error, done func(StoredDeadLetter, error)) {
	results := make([]chan error, len(letters))
	var groups [][]int
	chats := map[string]int{} // the group of a chat
	for i, l := range letters {
		results[i] = make(chan error, 1)
		if l.Kind != DeadNotification {
			groups = append(groups, []int{i})
			continue
		}
		var notification struct {
			ChatID string `json:"chat_id"`
		}
		_ = json.Unmarshal(l.Body, &notification) // one without a chat has the empty one
		chat := l.Name + "." + notification.ChatID
		group, ok := chats[chat]
		if !ok {
			group = len(groups)
			chats[chat], groups = group, append(groups, nil)
		}
		groups[group] = append(groups[group], i)
	}
	queue := make(chan []int, len(groups))
	for _, group := range groups {
		queue <- group
	}
	close(queue)
	for range min(lettersAtOnce, len(groups)) {
		go func() {
			for group := range queue {
				for _, i := range group {
					results[i] <- do(letters[i])
				}
			}
		}()
	}
	for i, l := range letters {
		done(l, <-results[i])
	}
}

// RemoveDeadLetter deletes a dead letter.
func (b *Bus) RemoveDeadLetter(ctx context.Context, letter StoredDeadLetter) error {
	for _, seq := range []uint64{letter.Number, letter.BodySequence} {
		if seq == 0 {
			continue
		}
		if err := b.DeleteMessage(ctx, Dead, seq); err != nil {
			return fmt.Errorf("remove dead letter %d: %w", letter.Number, err)
		}
	}
	return nil
}

// CheckRetriable returns an error if the letter cannot be retried. A client that may
// write dead letters can forge one, so the subject is checked before a retry changes
// anything.
func (b *Bus) CheckRetriable(l StoredDeadLetter) error {
	kind, name := b.deadName(l.Subject)
	switch {
	case b.Split(l.Subject) == nil || CheckSubject(l.Subject) != nil || kind != l.Kind || name != l.Name:
		return fmt.Errorf("the letter's kind %s and name %.100q do not match its subject %.200q", l.Kind, l.Name, l.Subject)
	case kind == DeadResult:
		return errors.New("its result is still stored and needs no retry; remove the letter")
	}
	return nil
}

// RetryDeadLetter republishes the message of a dead letter and then removes the
// letter. A crash in between leaves both. A second retry within the duplicate window
// of the stream then does not publish the message again.
func (b *Bus) RetryDeadLetter(ctx context.Context, letter StoredDeadLetter) error {
	err := b.CheckRetriable(letter)
	if err == nil {
		err = b.republish(ctx, letter.DeadLetter)
	}
	if err != nil {
		return fmt.Errorf("retry dead letter %d: %w", letter.Number, err)
	}
	return b.RemoveDeadLetter(ctx, letter)
}
