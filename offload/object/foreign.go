package object

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
)

// readAhead is how many chunks a sequential read requests at a time: 2 MiB.
const readAhead = 16

// messages iterates over the chunks of an object, from a sequence of the stream on.
func (s *Store) messages(ctx context.Context, object string, from uint64) iter.Seq2[jsapi.Message, error] {
	return s.api.Messages(ctx, s.stream(), jsapi.Get{Sequence: from, NextBySubject: s.chunkSubject(object), Batch: readAhead})
}

// foreignReader reads any object from its start, including objects of stock clients,
// whose chunks have any size. At the end, it checks the digest.
type foreignReader struct {
	s    *Store
	info *jetstream.ObjectInfo
	next func() (jsapi.Message, error, bool)
	stop func()
	sha  hash.Hash
	size uint64
	rest []byte // of the current chunk
}

func (s *Store) openForeign(ctx context.Context, info *jetstream.ObjectInfo) *foreignReader {
	next, stop := iter.Pull2(s.messages(ctx, info.NUID, 1))
	return &foreignReader{s: s, info: info, next: next, stop: stop, sha: sha256.New()}
}

func (r *foreignReader) close() { r.stop() }

// Read implements io.Reader. ErrCorrupt.
func (r *foreignReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.size == r.info.Size {
			return 0, r.verify()
		}
		if err := r.readChunk(); err != nil {
			return 0, fmt.Errorf("read object %q: %w", r.info.Name, err)
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *foreignReader) verify() error {
	if got := "SHA-256=" + base64.URLEncoding.EncodeToString(r.sha.Sum(nil)); got != r.info.Digest {
		return fmt.Errorf("read object %q: its digest is %s instead of %s: %w", r.info.Name, got, r.info.Digest, offload.ErrCorrupt)
	}
	return io.EOF
}

func (r *foreignReader) readChunk() error {
	m, err, ok := r.next()
	switch {
	case !ok:
		return fmt.Errorf("it ends after %d of %d bytes: %w", r.size, r.info.Size, offload.ErrCorrupt)
	case err != nil:
		return err
	}
	r.s.reads.Add(1)
	if r.size += uint64(len(m.Data)); r.size > r.info.Size {
		return fmt.Errorf("it has more than its %d bytes: %w", r.info.Size, offload.ErrCorrupt)
	}
	r.sha.Write(m.Data)
	r.rest = m.Data
	return nil
}
