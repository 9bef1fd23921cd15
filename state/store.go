package state

import (
	"context"
	"fmt"
	"regexp"
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

const (
	maxKey   = 256      // bytes
	maxValue = 64 << 10 // bytes
)

// keyPattern matches what NATS accepts as a key, and every file format.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*$`)

func checkKey(key string) error {
	if len(key) > maxKey || !keyPattern.MatchString(key) {
		return fmt.Errorf("key %.80q: want words of letters, digits, '_', '-' and '=', joined by dots, of at most %d bytes", key, maxKey)
	}
	return nil
}

// CheckValues returns an error if a Store must refuse one of the keys or values.
func CheckValues(values map[string]string) error {
	for key, value := range values {
		if err := checkKey(key); err != nil {
			return err
		}
		switch {
		case len(value) > maxValue:
			return fmt.Errorf("the value of %.80q has %d bytes; at most %d are accepted", key, len(value), maxValue)
		case !utf8.ValidString(value):
			return fmt.Errorf("the value of %.80q is not valid UTF-8", key)
		}
	}
	return nil
}
