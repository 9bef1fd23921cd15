package object

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
)

// openBlobs remembers the contents that were opened last: what describes them
// and the blocks that were read, so that whoever reads on in one asks the server
// for nothing but the new blocks. Bytes by their digest never change and every
// block was checked when it came, so nothing in it can be out of date but the
// place where an object stands, which objectContent looks up again when it finds
// nothing there. Whether a session may read a content is no business of this
// cache: that is in the record, which is asked for each time, if need be while the
// blocks are on their way.
//
// It holds at most cachedBlobs*(blocks.CacheSize*index.BlockSize + 1 MiB) = 16 MiB.
type openBlobs struct {
	mu   sync.Mutex
	list []*openBlob // the newest last
}

const (
	cachedBlobs = 8
	// maxCachedIndex is how many blocks a content may have to be remembered:
	// 4 GiB, whose index takes 1 MiB.
	maxCachedIndex = 32 << 10
)

// openBlob is an object that was looked up, and its blocks.
type openBlob struct {
	digest string
	*blob
	recent *blocks.Cache
	rec    atomic.Pointer[offload.Record] // that it was opened for last
}

// known returns the record that an object was opened for last. It may be out of
// date: nothing must be shown on the strength of it.
func (o *openBlobs) known(session, id string) (offload.Record, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.list {
		if rec := b.rec.Load(); rec != nil && rec.Session == session && rec.ID == id {
			return *rec, true
		}
	}
	return offload.Record{}, false
}

func (o *openBlobs) get(digest string) *openBlob {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.list, func(b *openBlob) bool { return b.digest == digest })
	if i < 0 {
		return nil
	}
	b := o.list[i]
	o.list = append(slices.Delete(o.list, i, i+1), b)
	return b
}

// add remembers an object in place of what is known of its digest.
func (o *openBlobs) add(b *openBlob) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = slices.DeleteFunc(o.list, func(old *openBlob) bool { return old.digest == b.digest })
	if b.index.Blocks() > maxCachedIndex {
		return
	}
	if len(o.list) == cachedBlobs {
		o.list = slices.Delete(o.list, 0, 1)
	}
	o.list = append(o.list, b)
}
