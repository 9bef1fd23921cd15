package object

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stevedore-bus/stevedore/offload"
)

// chunkReader reads any object from its start, also one that a stock client put
// in chunks of any size, and compares it with its digest at the end.
type chunkReader struct {
	s    *Store
	ctx  context.Context // Read has none
	info *jetstream.ObjectInfo
	sub  *nats.Subscription
	seq  uint64 // where the next batch starts
	open bool   // a batch has not ended
	sha  hash.Hash
	size uint64
	rest []byte
}

func (s *Store) newChunkReader(ctx context.Context, info *jetstream.ObjectInfo) *chunkReader {
	return &chunkReader{s: s, ctx: ctx, info: info, seq: 1, sha: sha256.New()}
}

// Read implements io.Reader. ErrCorrupt.
func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.size == r.info.Size {
			return 0, r.verify()
		}
		data, err := r.next()
		if err != nil {
			return 0, fmt.Errorf("read object %q: %w", r.info.Name, err)
		}
		r.rest = data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *chunkReader) verify() error {
	if got := "SHA-256=" + base64.URLEncoding.EncodeToString(r.sha.Sum(nil)); got != r.info.Digest {
		return fmt.Errorf("read object %q: its digest is %s instead of %s: %w", r.info.Name, got, r.info.Digest, offload.ErrCorrupt)
	}
	return io.EOF
}

// next returns the next chunk.
func (r *chunkReader) next() ([]byte, error) {
	for {
		if !r.open {
			if err := r.ask(); err != nil {
				return nil, err
			}
		}
		ctx, cancel := r.s.api.within(r.ctx)
		m, err := r.sub.NextMsgWithContext(ctx)
		cancel()
		if err != nil {
			return nil, err
		}
		msg, err := parseDirect(m)
		switch {
		case errors.Is(err, errEndOfBatch):
			r.open = false
			continue
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, fmt.Errorf("it ends after %d of %d bytes: %w: %w", r.size, r.info.Size, offload.ErrCorrupt, err)
		case err != nil:
			return nil, err
		}
		r.s.reads.Add(1)
		r.seq = msg.seq + 1
		if r.size += uint64(len(msg.data)); r.size > r.info.Size {
			return nil, fmt.Errorf("it has more than its %d bytes: %w", r.info.Size, offload.ErrCorrupt)
		}
		r.sha.Write(msg.data)
		return msg.data, nil
	}
}

func (r *chunkReader) ask() (err error) {
	if r.sub == nil {
		if r.sub, err = r.s.api.nc.SubscribeSync(r.s.api.nc.NewInbox()); err != nil {
			return err
		}
	}
	r.open = true
	return r.s.api.ask(r.sub, "OBJ_"+r.s.bucket, msgRequest{Seq: r.seq, Next: r.s.chunkSubject(r.info.NUID), Batch: batchChunks})
}

// Close implements io.Closer.
func (r *chunkReader) Close() error {
	if r.sub == nil {
		return nil
	}
	return r.sub.Unsubscribe()
}
