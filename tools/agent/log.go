package agent

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
)

// Log keeps conversations: for each session a list of entries that only grows.
// It is safe for concurrent use, also by several processes.
type Conversations interface {
	// Read returns all entries of a session, oldest first, and the position of
	// the last one; a session without entries has the position 0.
	Read(ctx context.Context, session string) (entries [][]byte, last uint64, err error)
	// Append adds an entry, if the last one is at the position after, and
	// returns the new position. The entry is durable then. ErrConflict: it is
	// not, because somebody else appended; ErrTooLarge. After any other error
	// nobody knows whether it was added.
	Append(ctx context.Context, session string, after uint64, entry []byte) (position uint64, err error)
}

var (
	// ErrConflict: the log has entries that the writer has not seen.
	ErrConflict = errors.New("the conversation went on elsewhere")
	// ErrTooLarge: the entry is larger than the log takes.
	ErrTooLarge = errors.New("the entry is too large for the log")
)

// MemLog is a Log in memory, for a program that runs loops by itself and needs
// no second life. The zero value is empty.
type MemConversations struct {
	mu       sync.Mutex
	sessions map[string][][]byte
}

// Read returns the entries of a session.
func (l *MemConversations) Read(_ context.Context, session string) ([][]byte, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := l.sessions[session]
	return slices.Clone(entries), uint64(len(entries)), nil
}

// Append adds an entry.
func (l *MemConversations) Append(_ context.Context, session string, after uint64, entry []byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if uint64(len(l.sessions[session])) != after {
		return 0, ErrConflict
	}
	if l.sessions == nil {
		l.sessions = map[string][][]byte{}
	}
	l.sessions[session] = append(l.sessions[session], bytes.Clone(entry))
	return after + 1, nil
}
