package object

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload"
)

var _ offload.Adopter = (*Store)(nil)

// PutObject implements Adopter.
func (s *Store) PutObject(ctx context.Context, rec offload.Record, object string, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	b, err := s.object(ctx, object)
	if err != nil {
		return offload.Record{}, fmt.Errorf("put artifact %q: object %q: %w", rec.ID, object, err)
	}
	r := s.newChunkReader(ctx, &b.ObjectInfo)
	defer r.Close()
	return s.Put(ctx, rec, r, summarize)
}

// maxObjectName keeps the subject of a name below the server's limit on control
// lines.
const maxObjectName = 1024

func (s *Store) object(ctx context.Context, name string) (*blob, error) {
	if digest, err := hex.DecodeString(name); err == nil && len(digest) == sha256.Size {
		// Ours: who could name one would read another session's artifact.
		return nil, fmt.Errorf("a name of 64 hexadecimal digits is one of the store's own: %w", offload.ErrNotFound)
	}
	if name == "" || len(name) > maxObjectName {
		return nil, fmt.Errorf("its name has %d bytes, not 1 to %d: %w", len(name), maxObjectName, offload.ErrNotFound)
	}
	b, err := s.blob(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && b.Deleted:
		return nil, fmt.Errorf("the bucket %q has no such object: %w", s.bucket, offload.ErrNotFound)
	case err != nil:
		return nil, err
	case b.Opts != nil && b.Opts.Link != nil:
		return nil, fmt.Errorf("it is a link, which is not followed: %w", offload.ErrNotFound)
	}
	return b, nil
}
