package offload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Adopter is a Store that can make an artifact of an object that a producer put
// into its bucket with a client of its own.
type Adopter interface {
	// PutObject is Put with the object of that name as the source. The object
	// stays, and is the producer's; a sweep removes it when it is older than
	// the TTL. ErrNotFound, if there is no such object; ErrCorrupt, if its
	// bytes are not those that its producer put.
	PutObject(ctx context.Context, rec Record, object string, summarize func(*Record, Content) error) (Record, error)
}

var _ Adopter = (*ObjectStore)(nil)

// PutObject implements Adopter.
func (s *ObjectStore) PutObject(ctx context.Context, rec Record, object string, summarize func(*Record, Content) error) (Record, error) {
	b, err := s.object(ctx, object)
	if err != nil {
		return Record{}, fmt.Errorf("put artifact %q: object %q: %w", rec.ID, object, err)
	}
	r := s.newChunkReader(ctx, &b.ObjectInfo)
	defer r.Close()
	return s.Put(ctx, rec, r, summarize)
}

// maxObjectName keeps the subject of a name below the server's limit on control
// lines.
const maxObjectName = 1024

func (s *ObjectStore) object(ctx context.Context, name string) (*blob, error) {
	if digest, err := hex.DecodeString(name); err == nil && len(digest) == sha256.Size {
		// Ours: who could name one would read another session's artifact.
		return nil, fmt.Errorf("a name of 64 hexadecimal digits is one of the store's own: %w", ErrNotFound)
	}
	if name == "" || len(name) > maxObjectName {
		return nil, fmt.Errorf("its name has %d bytes, not 1 to %d: %w", len(name), maxObjectName, ErrNotFound)
	}
	b, err := s.blob(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && b.Deleted:
		return nil, fmt.Errorf("the bucket %q has no such object: %w", s.bucket, ErrNotFound)
	case err != nil:
		return nil, err
	case b.Opts != nil && b.Opts.Link != nil:
		return nil, fmt.Errorf("it is a link, which is not followed: %w", ErrNotFound)
	}
	return b, nil
}
