package object

import "github.com/stevedore-bus/stevedore/offload/internal/blocks"

// maxCachedIndex is the number of blocks of the largest blob that Store.cache holds: 4 GiB, whose
// index takes 1 MiB.
const maxCachedIndex = 32 << 10

// cachedBlob is an object and its last blocks, so that reading on in it requests only new blocks.
// The content of a digest never changes, and each block was checked. Only the sequences can be
// outdated; then content looks up the object again. The cache does not decide who may read a blob:
// readers get the record from the server each time.
//
// The cache holds at most cacheSize*(cacheSize*index.BlockSize + 1 MiB) = 16 MiB.
type cachedBlob struct {
	digest string
	*blob
	recent blocks.Cache[int, []byte]
}
