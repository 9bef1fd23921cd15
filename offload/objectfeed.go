package offload

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// batchChunks is how many chunks are asked for at a time. Two batches are on
// their way to whoever reads in sequence, 2 MiB together.
const batchChunks = 8

// feed reads the chunks of an object ahead, in batches of direct gets. It is
// for one goroutine at a time.
type feed struct {
	s    *ObjectStore
	b    *blob
	sub  *nats.Subscription
	next int            // the first block that was not asked for
	open int            // batches that have not ended
	got  map[int][]byte // blocks that came and were not taken
}

// take returns block i of b, or nil if the feed cannot say: then the block has to
// be asked for by itself.
func (f *feed) take(ctx context.Context, b *blob, i int) ([]byte, error) {
	if f.b != b {
		f.stop()
		f.b = b
	}
	if f.sub == nil || i >= f.next || !f.mayCome(i) {
		if err := f.restart(i); err != nil {
			return nil, err
		}
	}
	for {
		if f.next-i <= batchChunks && f.next < len(f.b.seqs) {
			if err := f.ask(); err != nil {
				return nil, err
			}
		}
		if data, ok := f.got[i]; ok {
			delete(f.got, i)
			return data, nil
		}
		if f.open == 0 {
			return nil, nil
		}
		if err := f.receive(ctx, i); err != nil {
			f.stop()
			return nil, ctx.Err() // without an answer, ask for the one block
		}
	}
}

// mayCome reports whether block i was asked for and not taken yet.
func (f *feed) mayCome(i int) bool { return f.got[i] != nil || f.open > 0 }

func (f *feed) restart(i int) error {
	f.stop()
	sub, err := f.s.api.nc.SubscribeSync(f.s.api.nc.NewInbox())
	if err != nil {
		return fmt.Errorf("read ahead: %w", err)
	}
	f.sub, f.next, f.open, f.got = sub, i, 0, map[int][]byte{}
	return nil
}

func (f *feed) stop() error {
	if f.sub == nil {
		return nil
	}
	sub := f.sub
	f.sub, f.got = nil, nil
	return sub.Unsubscribe()
}

func (f *feed) ask() error {
	n := min(batchChunks, len(f.b.seqs)-f.next)
	req := msgRequest{Seq: f.b.seqs[f.next], Next: f.s.chunkSubject(f.b.NUID), Batch: n}
	if err := f.s.api.ask(f.sub, "OBJ_"+f.s.bucket, req); err != nil {
		return fmt.Errorf("read ahead: %w", err)
	}
	f.next += n
	f.open++
	return nil
}

// receive takes one answer in. Blocks before i are not wanted any more.
func (f *feed) receive(ctx context.Context, i int) error {
	ctx, cancel := f.s.api.within(ctx)
	defer cancel()
	m, err := f.sub.NextMsgWithContext(ctx)
	if err != nil {
		return err
	}
	msg, err := parseDirect(m)
	if err != nil {
		f.open--
		if errors.Is(err, errEndOfBatch) || errors.Is(err, jetstream.ErrMsgNotFound) {
			err = nil
		}
		return err
	}
	f.s.reads.Add(1)
	if at, ok := slices.BinarySearch(f.b.seqs, msg.seq); ok && at >= i && at < f.next {
		f.got[at] = msg.data
	}
	return nil
}

// ask sends a request whose answers come to sub.
func (a api) ask(sub *nats.Subscription, stream string, req msgRequest) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return a.nc.PublishRequest(a.prefix+"DIRECT.GET."+stream, sub.Subject, body)
}

// chunkReader reads any object from its start, also one that a stock client put
// in chunks of any size, and compares it with its digest at the end.
type chunkReader struct {
	s    *ObjectStore
	ctx  context.Context // Read has none
	info *jetstream.ObjectInfo
	sub  *nats.Subscription
	seq  uint64 // where the next batch starts
	open bool   // a batch has not ended
	sha  hash.Hash
	size uint64
	rest []byte
}

func (s *ObjectStore) newChunkReader(ctx context.Context, info *jetstream.ObjectInfo) *chunkReader {
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
		return fmt.Errorf("read object %q: its digest is %s instead of %s: %w", r.info.Name, got, r.info.Digest, ErrCorrupt)
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
			return nil, fmt.Errorf("it ends after %d of %d bytes: %w: %w", r.size, r.info.Size, ErrCorrupt, err)
		case err != nil:
			return nil, err
		}
		r.s.reads.Add(1)
		r.seq = msg.seq + 1
		if r.size += uint64(len(msg.data)); r.size > r.info.Size {
			return nil, fmt.Errorf("it has more than its %d bytes: %w", r.info.Size, ErrCorrupt)
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
