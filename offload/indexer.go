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

// countRunes is utf8.RuneCount, but many times as fast: to count a block costs
// less than to hash it, unless it is full of emoji or no text at all.
//
// There are as many runes as bytes, but for those that follow the first byte of
// a valid rune: any other counts by itself. Whether a byte is the first of a
// valid rune depends on the next three only, so the text can be cut anywhere.
func countRunes(p []byte) int64 {
	n := len(p)
	for ; len(p) >= 64+3; p = p[64:] {
		if !isASCII(p[:64]) {
			n -= followers((*[64 + 3]byte)(p))
		}
	}
	return int64(n - len(p) + utf8.RuneCount(p))
}

// followers counts the bytes that follow the first byte of a valid rune, for the
// runes that begin in the first 64 bytes of p.
//
// It works on eight bytes at once: x, and y, z, and w, which are those one, two,
// and three places further on. In lead, the highest bit of each byte tells whether
// it still may begin a rune. To look at another bit of a byte, it is shifted
// there. A small number is not 0 if 0x7f more reach the highest bit.
func followers(p *[64 + 3]byte) int {
	const (
		each   = 0x0101010101010101
		high   = each * 0x80
		not0   = each * 0x7f
		over16 = each * (0x80 - 17)
	)
	var sum uint64 // eight sums, together at most 64+2
	for rest := p[:]; len(rest) >= 8+3; rest = rest[8:] {
		q := (*[8 + 3]byte)(rest)
		x, y := binary.LittleEndian.Uint64(q[0:]), binary.LittleEndian.Uint64(q[1:])

		// 11xxxxxx 10xxxxxx. If it is a rune of two bytes, then its bits 7 to 10
		// are not 0: it would need only one.
		lead := x & (x << 1) & y &^ (y << 1) & high
		if two := lead &^ (x << 2); two != 0 {
			bits := x & (each * 0x1e)
			sum += two & (bits + not0) >> 7
		}
		lead &= x << 2
		if lead == 0 {
			continue
		}

		// 111xxxxx 10xxxxxx 10xxxxxx. If it is one of three bytes, then its bits
		// 11 to 15 are not 0, nor 11011, which is a surrogate.
		z := binary.LittleEndian.Uint64(q[2:])
		lead &= z &^ (z << 1)
		bits := x&(each*0x0f) ^ y>>5&each*0x0d // 0 for these two
		sum += lead &^ (x << 3) & (bits + not0) >> 7 * 2
		lead &= x << 3
		if lead == 0 {
			continue
		}

		// 1111xxxx 10xxxxxx 10xxxxxx 10xxxxxx. Its bits 16 to 21 are 1 to 16.
		w := binary.LittleEndian.Uint64(q[3:])
		lead &= w &^ (w << 1)
		bits = x&(each*0x0f)<<2 | y>>4&(each*0x03)
		sum += lead & (bits + not0) &^ (bits + over16) >> 7 * 3
	}
	return int(sum * each >> 56) // they are added up in the highest byte
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
