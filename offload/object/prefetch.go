package object

import (
	"context"
	"iter"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// prefetcher reads the chunks of an object in sequence, in batches. It is for one
// goroutine at a time.
type prefetcher struct {
	s    *Store
	b    *blob // nil if stopped
	i    int   // the next block
	next func() (jsapi.Message, error, bool)
	end  func()
}

// block returns block i of b, or nil if it is not the next chunk of the stream. The
// caller then requests the single block.
func (p *prefetcher) block(ctx context.Context, b *blob, i int) []byte {
	if p.b != b || p.i != i {
		p.stop()
		p.b, p.i = b, i
		p.next, p.end = iter.Pull2(p.s.messages(ctx, b.NUID, b.seqs[i]))
	}
	m, err, ok := p.next()
	if !ok || err != nil || m.Sequence != b.seqs[i] {
		p.stop()
		return nil
	}
	p.s.reads.Add(1)
	p.i++
	return m.Data
}

func (p *prefetcher) stop() {
	if p.b != nil {
		p.b = nil
		p.end()
	}
}
