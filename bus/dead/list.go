package dead

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// ErrNone means that no dead letter has the number.
var ErrNone = tools.Errorf(tools.CodeNotFound, "no such dead letter")

// ErrNoBody means that the body that does not fit into a letter is gone: a full stream removes it before the letter.
var ErrNoBody = tools.Errorf(tools.CodeNotFound, "its message is not stored any more; the letter can only be removed")

// Query selects dead letters.
type Query struct {
	Kind string `json:"kind"` // empty means all
	// Text is a part of the name, the reason or the id of the message, in upper or lower case;
	// empty means all.
	Text string `json:"text"`
	// After and Before limit the numbers; 0 means no limit.
	After  uint64 `json:"after"`
	Before uint64 `json:"before"`
	// Back lists the newest first.
	Back  bool `json:"back"`
	Limit int  `json:"limit"` // 0 means all
}

// maxScan limits the dead letters that one ListPage looks at.
const maxScan = 4000

// Page is a part of the dead letters. Next is the Before, or else the After, of the next page; 0 if
// there is none. A page may have fewer letters than the limit although there are more.
type Page struct {
	Letters []Stored `json:"dead"`
	Next    uint64   `json:"next"`
}

// ListPage returns the dead letters that a query selects. With Back, they have no messages.
func ListPage(ctx context.Context, b *bus.Bus, q Query) (Page, error) {
	letters := []Stored{}
	text, scanned := strings.ToLower(q.Text), 0
	for m, err := range b.Read(ctx, bus.Dead, bus.Query{Subject: b.Dead(cmp.Or(q.Kind, "*"), "*"), From: q.After + 1, Before: q.Before, Back: q.Back}) {
		if err != nil {
			return Page{}, fmt.Errorf("list dead letters: %w", err)
		}
		letter, ok := decode(b.Subjects, m)
		if q.Back {
			letter.Body, letter.Gzip = nil, nil
		}
		if ok && strings.Contains(strings.ToLower(letter.Name+"\n"+letter.Reason+"\n"+letter.ID), text) {
			letters = append(letters, letter)
		}
		if scanned++; q.Limit > 0 && (len(letters) >= q.Limit || scanned >= maxScan) {
			return Page{letters, m.Sequence}, nil
		}
	}
	return Page{Letters: letters}, nil
}

// Count returns the number of dead letters, without the messages that have the bodies of others.
func Count(ctx context.Context, b *bus.Bus) (n uint64, err error) {
	stream, err := b.UsedStream(ctx, bus.Dead)
	if stream == nil || err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(b.Dead("*", "*")))
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	for subject, letters := range info.State.Subjects {
		if b.Split(subject)[1] != bus.DeadBody {
			n += letters
		}
	}
	return n, nil
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
