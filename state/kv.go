package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"
)

// KV is a Store in a bucket of a NATS server, for facts that several hosts
// share: a fact's key is the bucket's key and its value the bucket's value, so
// that `nats kv get` shows them. The bucket should have a TTL, by which old facts
// and the markers of removed ones go; it is what bounds a flood of sessions.
//
// In a replicated bucket Get and List may be answered by a replica that is a
// moment behind; Update never writes over what it has not seen.
type KV struct{ bucket jetstream.KeyValue }

// NewKV returns the Store in bucket.
func NewKV(bucket jetstream.KeyValue) *KV { return &KV{bucket} }

// Get asks the server.
func (s *KV) Get(ctx context.Context, key string) (Fact, error) {
	if err := checkKey(key); err != nil {
		return Fact{}, fmt.Errorf("get state: %w", err)
	}
	fact, _, err := s.get(ctx, key)
	if err != nil {
		return Fact{}, fmt.Errorf("get state %q from bucket %q: %w", key, s.bucket.Bucket(), err)
	}
	return fact, nil
}

// get returns the fact and the revision to compare with, which is also that of
// an entry that is no fact.
func (s *KV) get(ctx context.Context, key string) (Fact, uint64, error) {
	entry, err := s.bucket.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Fact{Key: key}, 0, nil
	}
	if err != nil {
		return Fact{}, 0, err
	}
	return factOf(entry), entry.Revision(), nil
}

// factOf treats an empty value, which other clients may write, as no fact.
func factOf(entry jetstream.KeyValueEntry) Fact {
	if len(entry.Value()) == 0 {
		return Fact{Key: entry.Key()}
	}
	return Fact{entry.Key(), string(entry.Value()), entry.Revision(), entry.Created().UTC()}
}

// Set writes the values one after the other. After an error, those before the
// key it names are written.
func (s *KV) Set(ctx context.Context, values map[string]string) error {
	if err := checkAll(values); err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := s.put(ctx, key, values[key]); err != nil {
			return fmt.Errorf("set state %q in bucket %q: %w", key, s.bucket.Bucket(), explainFull(err))
		}
	}
	return nil
}

func (s *KV) put(ctx context.Context, key, value string) error {
	if value == "" {
		return s.bucket.Delete(ctx, key)
	}
	_, err := s.bucket.PutString(ctx, key, value)
	return err
}

// Update writes with compare-and-set. It tries again only when the server said
// that another writer was first; when an answer is missing, the outcome is
// unknown and the caller's to look at.
func (s *KV) Update(ctx context.Context, key string, change func(Fact) (string, error)) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("update state: %w", err)
	}
	var changeErr error
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Millisecond),
		backoff.WithRandomizationFactor(1), // full jitter: the writers must part
		backoff.WithMaxInterval(100*time.Millisecond),
		backoff.WithMaxElapsedTime(10*time.Second))
	err := backoff.Retry(func() error {
		old, revision, err := s.get(ctx, key)
		if err != nil {
			return backoff.Permanent(err)
		}
		value, err := change(old)
		if err != nil {
			changeErr = err
			return backoff.Permanent(err)
		}
		if err := checkValue(key, value); err != nil {
			return backoff.Permanent(err)
		}
		err = s.replace(ctx, key, value, revision)
		if err != nil && !isConflict(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(policy, ctx))
	if changeErr != nil {
		return changeErr
	}
	if err != nil {
		return fmt.Errorf("update state %q in bucket %q: %w", key, s.bucket.Bucket(), explainFull(err))
	}
	return nil
}

// replace writes value if revision is still the newest, 0 for none. An unchanged
// value is written too: only the server knows what is the newest.
func (s *KV) replace(ctx context.Context, key, value string, revision uint64) error {
	var err error
	switch {
	case value == "" && revision == 0:
	case value == "":
		err = s.bucket.Delete(ctx, key, jetstream.LastRevision(revision))
	case revision == 0:
		_, err = s.bucket.Create(ctx, key, []byte(value))
	default:
		_, err = s.bucket.Update(ctx, key, []byte(value), revision)
	}
	return err
}

// List reads all facts with one consumer.
func (s *KV) List(ctx context.Context, prefix string) ([]Fact, error) {
	facts, err := s.list(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list state %q in bucket %q: %w", prefix, s.bucket.Bucket(), err)
	}
	slices.SortFunc(facts, func(a, b Fact) int { return strings.Compare(a.Key, b.Key) })
	return facts, nil
}

func (s *KV) list(ctx context.Context, prefix string) (facts []Fact, err error) {
	// A watcher waits for as long as it must; nobody waits so long for a list.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	keys := ">"
	if prefix != "" {
		if err := checkKey(prefix); err != nil {
			return nil, err
		}
		keys = prefix + ".>"
	}
	watcher, err := s.bucket.Watch(ctx, keys, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watcher.Stop()) }()
	for {
		select {
		case entry, ok := <-watcher.Updates():
			if !ok {
				return nil, errors.New("the watcher ended before the last fact")
			}
			if entry == nil { // all that was there has come
				return facts, nil
			}
			if fact := factOf(entry); fact.Revision != 0 {
				facts = append(facts, fact)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// isConflict: another writer was first. One-replica and replicated streams say
// it with different codes.
func isConflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) ||
		hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence) ||
		hasCode(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// explainFull says what to do when the stream refused to store: 10077 comes from
// the bucket's bounds, 10047 from the server's. It is not ErrFull: a removal
// leaves a marker in the stream, which is no smaller than a small fact.
func explainFull(err error) error {
	if hasCode(err, 10077) || hasCode(err, 10047) {
		return fmt.Errorf("the bucket is full; let it grow, or give it a TTL so that old facts go: %w", err)
	}
	return err
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}
