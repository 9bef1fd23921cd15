package state

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Store keeps facts: short strings under a key, such as "last_channel.s1".
// A fact with an empty value is no fact: an absent key reads as the zero
// revision and the empty value, and writing the empty value removes it.
//
// Every write is durable when it returns nil, as durable as the store is: File
// survives a power loss; KV what the bucket's stream survives. A write that
// returns an error changed nothing, unless the error came after the last step
// (File: the directory's fsync; KV: the wait for the answer) and the next Get
// tells. Stores are safe for concurrent use, also by several processes.
type Store interface {
	// Get returns the fact under key, or one without a value.
	Get(ctx context.Context, key string) (Fact, error)
	// Set writes values by key, whatever was there before. File writes them in
	// one step; KV one after the other in the order of their keys.
	Set(ctx context.Context, values map[string]string) error
	// Update writes under key what change makes of the fact there, unless an
	// other writer comes between: then change is called again, with the newer
	// fact. An error of change is returned as it is, and nothing is written. A
	// value that stays the same may be written again or not. change may run on
	// another goroutine; it must not block or call the store.
	Update(ctx context.Context, key string, change func(old Fact) (string, error)) error
	// List returns the facts whose keys begin with prefix and a dot, all facts
	// for an empty prefix, sorted by key.
	List(ctx context.Context, prefix string) ([]Fact, error)
}

// Fact is one key, its value, and when it was last written.
type Fact struct {
	Key   string
	Value string
	// Revision grows with every write of the key and is never used again, also
	// not after a removal. 0: there is no such fact.
	Revision uint64
	// UpdatedAt is the time at the place of the write (File: under the lock;
	// KV: on the server), UTC.
	UpdatedAt time.Time
}

const (
	// MaxKeyLen is the longest key, in bytes.
	MaxKeyLen = 256
	// MaxValueLen is the longest value, in bytes: facts are small. What is
	// longer is a file or an artifact.
	MaxValueLen = 64 << 10
)

// ErrFull is returned by writes to a store that holds as much as it may, when
// removing facts would make room.
var ErrFull = errors.New("the state store is full")

// keyPattern: dot-separated tokens that NATS and every file format can carry.
var keyPattern = regexp.MustCompile(`^[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*$`)

func checkKey(key string) error {
	if len(key) > MaxKeyLen {
		return fmt.Errorf("key %q...: %d bytes, at most %d are allowed", key[:32], len(key), MaxKeyLen)
	}
	if !keyPattern.MatchString(key) {
		return fmt.Errorf("key %q: want words of letters, digits, '_', '-' or '=', joined by dots", key)
	}
	return nil
}

func checkValue(key, value string) error {
	if len(value) > MaxValueLen {
		return fmt.Errorf("value of %q: %d bytes, at most %d are allowed", key, len(value), MaxValueLen)
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("value of %q: not valid UTF-8", key)
	}
	return nil
}

func checkAll(values map[string]string) error {
	for key, value := range values {
		if err := checkKey(key); err != nil {
			return err
		}
		if err := checkValue(key, value); err != nil {
			return err
		}
	}
	return nil
}

func hasPrefix(key, prefix string) bool {
	return prefix == "" || strings.HasPrefix(key, prefix+".")
}
