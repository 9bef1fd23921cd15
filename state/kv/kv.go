package kv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/state"
)

// Store keeps each fact under its own key of the bucket, with its value as it is,
// so that `nats kv get` shows it. The bucket has no TTL: it would remove the notes of agents, too.
type Store struct {
	api  jsapi.API
	open func(context.Context) (jetstream.KeyValue, error)
}

// New returns the Store in a bucket of the account of api. Each operation calls open, which should cache the bucket.
func New(api jsapi.API, open func(context.Context) (jetstream.KeyValue, error)) *Store {
	return &Store{api, open}
}

// Get asks the leader of the bucket, because a replica may lag behind. It takes an empty value, which other clients may
// write, for no fact.
func (s *Store) Get(ctx context.Context, key string) (state.Fact, error) {
	bucket, err := s.open(ctx)
	if err != nil {
		return state.Fact{}, fmt.Errorf("get state %q: %w", key, err)
	}
	name := bucket.Bucket()
	m, err := s.api.GetFromLeader(ctx, "KV_"+name, jsapi.Get{LastBySubject: "$KV." + name + "." + key})
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && len(m.Data) == 0 { // also if it was deleted
		return state.Fact{}, nil
	}
	if err != nil {
		return state.Fact{}, fmt.Errorf("get state %q from bucket %q: %w", key, name, err)
	}
	return state.Fact{Value: string(m.Data), UpdatedAt: m.Time.UTC()}, nil
}

// Set writes the values one after the other. After an error, the keys before the
// one that it names are written.
func (s *Store) Set(ctx context.Context, values map[string]string) error {
	if err := state.CheckValues(values); err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	bucket, err := s.open(ctx)
	if err != nil {
		return fmt.Errorf("set state: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := put(ctx, bucket, key, values[key]); err != nil {
			return fmt.Errorf("set state %q in bucket %q: %w", key, bucket.Bucket(), explainFull(err))
		}
	}
	return nil
}

func put(ctx context.Context, bucket jetstream.KeyValue, key, value string) error {
	if value == "" {
		return bucket.Delete(ctx, key)
	}
	_, err := bucket.PutString(ctx, key, value)
	return err
}

// explainFull adds advice if the server has no space for the value.
func explainFull(err error) error {
	if jsapi.IsNoSpace(err) {
		return fmt.Errorf("the bucket is full; increase its size: %w", err)
	}
	return err
}
