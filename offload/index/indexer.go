package index

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
	"github.com/stevedore-bus/stevedore/tools/charset"
)

// Indexer computes the index and the digest of a content from its blocks, so the content
// can have any size.
type Indexer struct {
	index *Index
	sha   hash.Hash
	lines int64
	chars int64
	tail  []byte // the start of a rune that the end of the last block cuts, up to 3 bytes
}

// NewIndexer returns an Indexer of an empty content.
func NewIndexer() *Indexer {
	return &Indexer{
		index: &Index{newlines: []int64{0}, chars: []int64{0}},
		sha:   sha256.New(),
	}
}

// Finish returns the index and the hexadecimal SHA-256 of the content. The caller
// must not add blocks after Finish.
func (w *Indexer) Finish() (*Index, string) {
	w.closeRune(nil)
	return w.index, hex.EncodeToString(w.sha.Sum(nil))
}

// Block adds the next block. All blocks except the last one must have BlockSize bytes.
func (w *Indexer) Block(p []byte) {
	x := w.index
	w.sha.Write(p) // first: hashing hides the latency of uncached memory
	carry := w.closeRune(p)
	body := p[carry:]
	cut := len(body) - charset.OpenRune(body)
	w.tail = append(w.tail[:0], body[cut:]...)
	w.chars += textscan.CountRunes(body[:cut])
	w.lines += textscan.CountNewlines(p)

	x.size += int64(len(p))
	x.high = x.high || !textscan.ASCII(p)
	x.carry = append(x.carry, uint8(carry))
	x.sums = append(x.sums, crc32.Checksum(p, castagnoli))
	x.newlines = append(x.newlines, w.lines)
	x.chars = append(x.chars, w.chars)
}

// closeRune decodes the open rune at the end of the last block with the bytes of
// next, and corrects the character count between the two blocks. It returns how
// many bytes of next belong to that rune.
func (w *Indexer) closeRune(next []byte) (carry int) {
	if len(w.tail) == 0 {
		return 0
	}
	open := len(w.tail)
	joined := append(w.tail, next[:min(len(next), utf8.UTFMax-1)]...)
	at := 0
	for at < open {
		_, size := utf8.DecodeRune(joined[at:])
		at += size
		w.chars++
	}
	w.tail = w.tail[:0]
	w.index.chars[len(w.index.chars)-1] = w.chars
	return at - open
}
