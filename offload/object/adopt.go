package object

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload"
)

var _ offload.Adopter = (*Store)(nil)

// PutObject implements offload.Adopter.
func (s *Store) PutObject(ctx context.Context, rec offload.Record, object string, summarize func(*offload.Record,
	offload.Content) error) (offload.Record, error) {
	b, err := s.foreignObject(ctx, object)
	if err != nil {
		return offload.Record{}, fmt.Errorf("put artifact %q: object %q: %w", rec.ID, object, err)
	}
	r, w := io.Pipe()
	var copying sync.WaitGroup
	copying.Go(func() { w.CloseWithError(s.copyForeign(ctx, w, &b.ObjectInfo)) })
	defer copying.Wait()
	defer r.Close() // ends the copy
	return s.Put(ctx, rec, r, summarize)
}

// maxObjectName keeps the subject of an object within the server's limit on control
// lines.
const maxObjectName = 1024

// foreignObject looks up an object of a producer. ErrNotFound.
func (s *Store) foreignObject(ctx context.Context, name string) (*blob, error) {
	if digest, err := hex.DecodeString(name); err == nil && len(digest) == sha256.Size {
		// A caller that could name a blob could read the artifacts of other sessions.
		return nil, fmt.Errorf("names of 64 hexadecimal digits belong to the store: %w", offload.ErrNotFound)
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
		return nil, fmt.Errorf("it is a link, and the store does not follow links: %w", offload.ErrNotFound)
	}
	return b, nil
}
