package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// ReadSession returns what was appended to a session's log, oldest first, and
// the sequence of the last entry; 0 if there is none. The entries are read one
// by one, straight from the stream, which takes no right but to read it.
func (b *Bus) ReadSession(ctx context.Context, session string) (entries [][]byte, last uint64, err error) {
	subject := b.Session(session)
	for {
		msg, err := b.next(ctx, Sessions, subject, last+1)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return entries, last, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read %q: %w", subject, err)
		}
		entries, last = append(entries, msg.Data), msg.Sequence
	}
}

// AppendSession appends an entry to a session's log, if the last one there has
// the sequence after (0: there is none), and returns the new sequence.
// ErrConflict: somebody else appended. ErrTooLarge, ErrFull: nothing was
// appended. After any other error nobody knows.
func (b *Bus) AppendSession(ctx context.Context, session string, after uint64, entry []byte) (uint64, error) {
	subject, key := b.Session(session), nuid.Next()
	ack, err := b.Publish(ctx, Message{Subject: subject, Body: entry, Header: ExpectRevision(after), Key: key})
	if !errors.Is(err, ErrConflict) {
		return ack.Sequence, err
	}
	// It may be our own entry that is in the way, if the acknowledgement of an
	// earlier attempt was lost: the one that follows after tells.
	msg, readErr := b.next(ctx, Sessions, subject, after+1)
	switch {
	case errors.Is(readErr, jetstream.ErrMsgNotFound):
		return 0, err // after is not the last one, nor is there one behind it
	case readErr != nil:
		return 0, fmt.Errorf("append to %q: nobody knows whether it was: %w", subject, readErr)
	case msg.Header.Get(jetstream.MsgIDHeader) == key:
		return msg.Sequence, nil
	}
	return 0, err
}

// SessionSize is a session and how many entries its log has.
type SessionSize struct {
	Session string // token
	Entries uint64
}

// ListSessions lists the sessions that have a log, by name.
func (b *Bus) ListSessions(ctx context.Context) ([]SessionSize, error) {
	s, err := b.Stream(ctx, Sessions)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(b.Session(">")))
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var sizes []SessionSize
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		name := strings.TrimPrefix(subject, b.Session(""))
		sizes = append(sizes, SessionSize{Session: name, Entries: info.State.Subjects[subject]})
	}
	return sizes, nil
}
