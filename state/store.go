package state

import (
	"context"
	"time"
)

// Store keeps facts: short strings under keys, such as "last_channel.s1". Stores
// are safe for concurrent use, also by several processes.
type Store interface {
	// Get returns the fact under key, or the zero Fact if there is none.
	Get(ctx context.Context, key string) (Fact, error)
	// Set writes values by key and leaves all other facts as they are. An empty value
	// deletes its key. File writes the values in one step; KV writes one after the
	// other in the order of their keys.
	//
	// When Set returns nil, the values are durable. When it returns an error,
	// nothing changed, unless the error came after the last step (File: the fsync
	// of the directory; KV: the wait for the reply) or ctx ended meanwhile.
	Set(ctx context.Context, values map[string]string) error
}

// Fact is a value and the time of its last write, in UTC (File: this host's clock;
// KV: the server's).
type Fact struct {
	Value     string    `json:"value"` // never empty
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}
