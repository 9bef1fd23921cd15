package state

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"
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

const maxValue = 64 << 10 // bytes

// CheckValues returns an error if a Store must refuse one of the values.
func CheckValues(values map[string]string) error {
	for key, value := range values {
		switch {
		case len(value) > maxValue:
			return fmt.Errorf("the value of %.80q has %d bytes; at most %d are accepted", key, len(value), maxValue)
		case !utf8.ValidString(value):
			return fmt.Errorf("the value of %.80q is not valid UTF-8", key)
		}
	}
	return nil
}
