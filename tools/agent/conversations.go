package agent

import (
	"context"
	"errors"
)

// Conversations stores the logs of conversations: for each session a list of
// entries that only grows. It is safe for concurrent use by several processes.
type Conversations interface {
	// Read returns the entries of a session behind a position, oldest first, and the position
	// of the last one, which is after if there is none. The position 0 is before all entries.
	Read(ctx context.Context, session string, after uint64) (entries [][]byte, last uint64, err error)
	// Append adds an entry if the last entry is at the position after, and returns
	// the new position. If it returns nil, the entry is durable. ErrConflict and
	// ErrTooLarge mean that it was not added; after any other error it may have been.
	Append(ctx context.Context, session string, after uint64, entry []byte) (position uint64, err error)
}

var (
	// ErrConflict: the log has entries that the writer has not read.
	ErrConflict = errors.New("another process has continued the conversation")
	// ErrTooLarge: the entry is larger than the log accepts.
	ErrTooLarge = errors.New("the entry is too large for the log")
)
