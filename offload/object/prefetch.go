package object

import (
	"context"
	"errors"
	"fmt"
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
	s    *Store
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
