// Package index locates lines and characters in a content of any size, and
// detects damaged blocks, without reading the rest of the content.
package index

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
	"github.com/stevedore-bus/stevedore/tools/charset"
)

// BlockSize is the size in bytes of the blocks that an Index describes. The object
// store writes chunks of the same size.
const BlockSize = 128 << 10

// ErrCorrupt means that stored bytes differ from the bytes that were put.
var ErrCorrupt = errors.New("artifact content is corrupt")

// Index holds, for each block of BlockSize bytes, a checksum and how many newlines
// and characters start before the block. An Indexer builds it in one pass.
//
// Splitting the content at "\n" gives its lines: "a\n" has two lines and "" has
// one. A character is a rune, or a byte that is not part of valid UTF-8.
type Index struct {
	// newlines[i] and chars[i] count the newlines and the characters before byte
	// i*BlockSize. The last element counts the whole content.
	newlines []int64
	chars    []int64

	size  int64
	high  bool     // a byte is not ASCII; only an Indexer knows
	carry []uint8  // carry[i] bytes at the start of block i belong to a character that started before it
	sums  []uint32 // sums[i] is the CRC-32C of block i
}

// castagnoli has hardware support, so checking each block costs little. A CRC
// detects damage but not forgery; the digest detects both.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Size returns the number of bytes of the content.
func (x *Index) Size() int64 { return x.size }

// Lines returns the number of lines of the content.
func (x *Index) Lines() int64 { return x.newlines[len(x.newlines)-1] + 1 }

// TotalChars returns the number of characters of the content.
func (x *Index) TotalChars() int64 { return x.chars[len(x.chars)-1] }

// ASCII reports whether the content is ASCII. Of an index that was stored it is true.
func (x *Index) ASCII() bool { return !x.high }

// Blocks returns the number of blocks of the content. The last one may be short.
func (x *Index) Blocks() int { return len(x.sums) }

// BlockLen returns the number of bytes of block i.
func (x *Index) BlockLen(i int) int {
	return int(min(BlockSize, x.size-int64(i)*BlockSize))
}

// Check returns ErrCorrupt unless data has the length and checksum of block i.
func (x *Index) Check(i int, data []byte) error {
	switch {
	case i < 0 || i >= len(x.sums):
		return fmt.Errorf("check block %d of %d: %w", i, len(x.sums), ErrCorrupt)
	case len(data) != x.BlockLen(i):
		return fmt.Errorf("check block %d: it has %d bytes instead of %d: %w", i, len(data), x.BlockLen(i), ErrCorrupt)
	case crc32.Checksum(data, castagnoli) != x.sums[i]:
		return fmt.Errorf("check block %d: its checksum differs: %w", i, ErrCorrupt)
	}
	return nil
}

// LineOffset returns the offset of the first byte of a line; the first line is 1.
// The line after the last one is at the end of the content. It reads at most one
// block: the one that holds the newline before the line.
func (x *Index) LineOffset(r io.ReaderAt, line int64) (int64, error) {
	switch {
	case line < 1 || line > x.Lines()+1:
		return 0, fmt.Errorf("find line %d: the content has lines 1 to %d", line, x.Lines())
	case line == 1:
		return 0, nil
	case line == x.Lines()+1:
		return x.size, nil
	}
	nth := line - 1 // the newline that ends the line before
	block := sort.Search(x.Blocks(), func(i int) bool { return x.newlines[i+1] >= nth })
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find line %d: %w", line, err)
	}
	at := textscan.NthNewline(data, nth-x.newlines[block])
	if at < 0 {
		return 0, fmt.Errorf("find line %d: block %d has fewer newlines than its index: %w", line, block, ErrCorrupt)
	}
	return int64(block)*BlockSize + int64(at) + 1, nil
}

// CharOffset returns the offset of the first byte of a character; the first
// character is 0. The character after the last one is at the end of the content.
// It reads at most one block: the one in which the character starts.
func (x *Index) CharOffset(r io.ReaderAt, char int64) (int64, error) {
	switch {
	case char < 0 || char > x.TotalChars():
		return 0, fmt.Errorf("find character %d: the content has %d", char, x.TotalChars())
	case char == x.TotalChars():
		return x.size, nil
	}
	block := sort.Search(x.Blocks(), func(i int) bool { return x.chars[i+1] > char })
	if x.chars[block] == char {
		return int64(block)*BlockSize + int64(x.carry[block]), nil
	}
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find character %d: %w", char, err)
	}
	at := int(x.carry[block])
	at += textscan.RunesLen(data[at:], char-x.chars[block])
	return int64(block)*BlockSize + int64(at), nil
}

// CharAt returns the number of the first character that starts at or after off,
// counted from 0. It reads at most one block.
func (x *Index) CharAt(r io.ReaderAt, off int64) (int64, error) {
	if off < 0 || off > x.size {
		return 0, fmt.Errorf("find the character at byte %d: the content has %d bytes", off, x.size)
	}
	if off == x.size {
		return x.TotalChars(), nil
	}
	block, rest := int(off/BlockSize), int(off%BlockSize)
	n, at := x.chars[block], int(x.carry[block])
	if rest <= at {
		return n, nil
	}
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find the character at byte %d: %w", off, err)
	}
	cut := rest - charset.OpenRune(data[at:rest])
	n += textscan.CountRunes(data[at:cut])
	for at = cut; at < rest; n++ {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return min(n, x.chars[block+1]), nil // the last rune of the block may end in the next one
}

// LineAt returns the line that contains the byte at off, counted from 1. It reads at
// most one block.
func (x *Index) LineAt(r io.ReaderAt, off int64) (int64, error) {
	if off < 0 || off > x.size {
		return 0, fmt.Errorf("find the line of byte %d: the content has %d bytes", off, x.size)
	}
	block, rest := int(off/BlockSize), int(off%BlockSize)
	if rest == 0 {
		return x.newlines[block] + 1, nil
	}
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find the line of byte %d: %w", off, err)
	}
	return x.newlines[block] + textscan.CountNewlines(data[:rest]) + 1, nil
}

// BlockReader caches the blocks of a content. Finding a line and reading it then loads
// the block once. Callers must not change the returned bytes.
type BlockReader interface {
	Block(i int) ([]byte, error)
}

// readBlock reads one block only, although its last rune may continue in the next
// block.
func (x *Index) readBlock(r io.ReaderAt, block int) ([]byte, error) {
	if b, ok := r.(BlockReader); ok {
		return b.Block(block)
	}
	data := make([]byte, x.BlockLen(block))
	n, err := r.ReadAt(data, int64(block)*BlockSize)
	if n == len(data) {
		return data, nil
	}
	if err == nil || err == io.EOF {
		err = fmt.Errorf("read block %d: it has %d of %d bytes: %w", block, n, len(data), ErrCorrupt)
	}
	return nil, err
}
