package offload

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"unicode/utf8"
)

// Indexer makes the index and the digest of what is written to it. It holds at
// most one block, so content of any size goes through.
type Indexer struct {
	index *Index
	sha   hash.Hash
	part  []byte // a block that is not full yet
	lines int64
	chars int64
	tail  []byte // a rune cut off by the end of the last block, up to 3 bytes
}

// NewIndexer returns an Indexer that has seen nothing.
func NewIndexer() *Indexer {
	return &Indexer{
		index: &Index{Newlines: []int64{0}, Chars: []int64{0}},
		sha:   sha256.New(),
	}
}

// Write takes the next bytes of the content; it never fails. Whole blocks are
// taken as they are, others are collected first.
func (w *Indexer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if len(w.part) == 0 && len(rest) >= BlockSize {
			w.block(rest[:BlockSize])
			rest = rest[BlockSize:]
			continue
		}
		n := min(len(rest), BlockSize-len(w.part))
		w.part = append(w.part, rest[:n]...)
		rest = rest[n:]
		if len(w.part) == BlockSize {
			w.block(w.part)
			w.part = w.part[:0]
		}
	}
	return len(p), nil
}

// Finish returns the index and the hexadecimal SHA-256 of all that was written.
// Nothing may be written after it.
func (w *Indexer) Finish() (*Index, string) {
	if len(w.part) > 0 {
		w.block(w.part)
		w.part = nil
	}
	w.settle(nil)
	return w.index, hex.EncodeToString(w.sha.Sum(nil))
}

// block takes the next block: a whole one, or the last.
func (w *Indexer) block(p []byte) {
	x := w.index
	w.sha.Write(p) // first: it hides the wait for memory that is in no cache
	carry := w.settle(p)
	body := p[carry:]
	cut := len(body) - openRune(body)
	w.tail = append(w.tail[:0], body[cut:]...)
	w.chars += countRunes(body[:cut])
	w.lines += countNewlines(p)

	x.size += int64(len(p))
	x.carry = append(x.carry, uint8(carry))
	x.sums = append(x.sums, crc32.Checksum(p, castagnoli))
	x.Newlines = append(x.Newlines, w.lines)
	x.Chars = append(x.Chars, w.chars)
}

// settle decides what the open rune at the end of the last block is, now that
// next follows it, and corrects the mark between the two. It returns how many
// bytes of next belong to that rune.
func (w *Indexer) settle(next []byte) (carry int) {
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
	w.index.Chars[len(w.index.Chars)-1] = w.chars
	return at - open
}

// countRunes is utf8.RuneCount, but many times as fast on ASCII, also if there
// is something else here and there.
func countRunes(p []byte) (n int64) {
	const most = 1 << 10
	for step := 64; len(p) >= most+utf8.UTFMax; {
		if isASCII(p[:64]) {
			p, n, step = p[64:], n+64, 64
			continue
		}
		// A rune that starts before end is over at the next byte that can start one.
		end := step
		for end < step+utf8.UTFMax-1 && !utf8.RuneStart(p[end]) {
			end++
		}
		n += int64(utf8.RuneCount(p[:end]))
		p, step = p[end:], min(2*step, most)
	}
	return n + int64(utf8.RuneCount(p))
}

// isASCII looks at 64 bytes.
func isASCII(p []byte) bool {
	q := (*[64]byte)(p)
	any := binary.LittleEndian.Uint64(q[0:]) | binary.LittleEndian.Uint64(q[8:]) |
		binary.LittleEndian.Uint64(q[16:]) | binary.LittleEndian.Uint64(q[24:]) |
		binary.LittleEndian.Uint64(q[32:]) | binary.LittleEndian.Uint64(q[40:]) |
		binary.LittleEndian.Uint64(q[48:]) | binary.LittleEndian.Uint64(q[56:])
	return any&0x8080808080808080 == 0
}

// openRune returns how many bytes at the end of p are the start of a rune that
// more bytes could complete.
func openRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if c := p[len(p)-n]; utf8.RuneStart(c) {
			if utf8.FullRune(p[len(p)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}
