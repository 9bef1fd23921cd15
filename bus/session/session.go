// Package session stores the conversation log of each session in a stream. A writer
// appends an entry only if it knows the last one (compare-and-set).
//
// The API that is kept stable does not contain this package; see docs/api.md.
package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Store reads and appends the conversation logs of a bus. It is safe for concurrent
// use.
type Store struct{ bus *bus.Bus }

// New returns the conversation logs of a bus.
func New(b *bus.Bus) *Store { return &Store{b} }

// Read returns the entries of a session with sequences above after, oldest first, and the
// sequence of the last one, which is after if there is none. The only permissions it needs are to
// read the stream, directly and from its leader: a replica that lags behind lacks the newest entries.
func (s *Store) Read(ctx context.Context, session string, after uint64) (entries [][]byte, last uint64, err error) {
	subject, last := s.bus.Session(session), after
	if stream, err := s.bus.UsedStream(ctx, bus.Sessions); stream == nil && err == nil {
		return nil, last, nil
	}
	for m, err := range s.bus.API().AllMessages(ctx, s.bus.StreamName(bus.Sessions), jsapi.Get{NextBySubject: subject, Sequence: after + 1, MaxBytes: 4 << 20}) {
		if err != nil {
			return nil, 0, fmt.Errorf("read %q: %w", subject, err)
		}
		entries, last = append(entries, m.Data), m.Sequence
	}
	return entries, last, nil
}

// Append appends an entry to a session if the last entry has the sequence after (0:
// there is none), and returns the new sequence. ErrConflict means that another
// writer appended, ErrTooLarge and ErrFull that nothing was appended. After any
// other error the entry may or may not be stored.
func (s *Store) Append(ctx context.Context, session string, after uint64, entry []byte) (uint64, error) {
	subject, key := s.bus.Session(session), nuid.Next()
	ack, err := s.bus.Publish(ctx, bus.Message{Subject: subject, Body: entry, Header: bus.ExpectRevision(after), Key: key})
	if !errors.Is(err, bus.ErrConflict) {
		return ack.Sequence, err
	}
	// The conflict may be with this entry, if an earlier acknowledgement was lost.
	// Then it is the first entry after that sequence.
	m, readErr := s.bus.API().GetMessage(ctx, s.bus.StreamName(bus.Sessions), jsapi.Get{Sequence: after + 1, NextBySubject: subject})
	switch {
	case errors.Is(readErr, jetstream.ErrMsgNotFound):
		return 0, err // the last entry is older than after
	case readErr != nil:
		return 0, fmt.Errorf("append to %q: the entry may or may not be stored: %w", subject, readErr)
	case m.Header.Get(jetstream.MsgIDHeader) == key:
		return m.Sequence, nil
	}
	return 0, err
}

// Remove deletes the entries of a session up to the sequence last.
func (s *Store) Remove(ctx context.Context, session string, last uint64) error {
	if err := s.bus.Purge(ctx, bus.Sessions, s.bus.Session(session), last+1); err != nil {
		return fmt.Errorf("remove session %q: %w", session, err)
	}
	return nil
}

// List returns the sessions (tokens) that have a log, sorted.
func (s *Store) List(ctx context.Context) (names []string, err error) {
	stream, err := s.bus.UsedStream(ctx, bus.Sessions)
	if stream == nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(s.bus.Session(">")))
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		names = append(names, strings.TrimPrefix(subject, s.bus.Session("")))
	}
	return names, nil
}
