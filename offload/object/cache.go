package object

import (
	"slices"
	"sync"

	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
)

// blobCache holds the blobs that were opened last and their last blocks, so that
// reading on in one requests only new blocks. The content of a digest never changes,
// and each block was checked. Only the sequences can be outdated; then content looks
// up the object again. The cache does not decide who may read a blob: readers get the
// record from the server each time.
//
// It holds at most cachedBlobs*(blocks.CacheSize*index.BlockSize + 1 MiB) = 16 MiB.
type blobCache struct {
	mu   sync.Mutex
	list []*cachedBlob // the newest last
}

const (
	cachedBlobs = 8
	// maxCachedIndex is the number of blocks of the largest cached blob: 4 GiB,
	// whose index takes 1 MiB.
	maxCachedIndex = 32 << 10
)

// cachedBlob is an object and its last blocks.
type cachedBlob struct {
	digest string
	*blob
	recent *blocks.Cache
}

func (c *blobCache) get(digest string) *cachedBlob {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.list, func(b *cachedBlob) bool { return b.digest == digest })
	if i < 0 {
		return nil
	}
	b := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), b)
	return b
}

// add replaces the cached blob of the digest.
func (c *blobCache) add(b *cachedBlob) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, func(old *cachedBlob) bool { return old.digest == b.digest })
	if b.index.Blocks() > maxCachedIndex {
		return
	}
	if len(c.list) == cachedBlobs {
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, b)
}
