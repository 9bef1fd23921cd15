package offload

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
	"unicode/utf8"
)

// BlockSize is the distance, in bytes, between two marks of an Index, and the
// size of the chunks that the stores write.
const BlockSize = 128 << 10

// Index locates lines and characters in a content without reading all of it. It
// is made while the content is written: for each block of BlockSize bytes it
// holds how many newlines and how many characters start before the block.
//
// Lines are the pieces that splitting at "\n" gives: "a\n" has two and "" has
// one. Characters are runes; a byte that is not part of valid UTF-8 counts as
// one.
type Index struct {
	// Newlines[i] and Chars[i] count what lies before byte i*BlockSize; the
	// last element counts the whole content.
	Newlines []int64
	Chars    []int64

	size  int64
	carry []uint8  // carry[i] bytes at the start of block i belong to a character that started before it
	sums  []uint32 // sums[i] is the CRC-32C of block i
}

// castagnoli is computed by the processor, so that each block read can be
// checked at no cost. It finds rot, not forgery: that is what the digest is for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Size is the number of bytes of the content.
func (x *Index) Size() int64 { return x.size }

// Lines is the number of lines of the content.
func (x *Index) Lines() int64 { return x.Newlines[len(x.Newlines)-1] + 1 }

// TotalChars is the number of characters of the content.
func (x *Index) TotalChars() int64 { return x.Chars[len(x.Chars)-1] }

// Blocks is the number of blocks of the content; the last may be short.
func (x *Index) Blocks() int { return len(x.sums) }

// BlockLen is the number of bytes of block i.
func (x *Index) BlockLen(i int) int {
	return int(min(BlockSize, x.size-int64(i)*BlockSize))
}

// Check reports whether data is block i as it was put: nil or ErrCorrupt.
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

// LineOffset returns the offset of the first byte of a line, counted from 1.
// The line after the last one is at the end of the content. It reads at most
// the one block that holds the newline before the line.
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
	block := sort.Search(x.Blocks(), func(i int) bool { return x.Newlines[i+1] >= nth })
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find line %d: %w", line, err)
	}
	at := nthNewline(data, nth-x.Newlines[block])
	if at < 0 {
		return 0, fmt.Errorf("find line %d: block %d has fewer newlines than its index: %w", line, block, ErrCorrupt)
	}
	return int64(block)*BlockSize + int64(at) + 1, nil
}

// CharOffset returns the offset of the first byte of a character, counted from
// 0. The character after the last one is at the end of the content. It reads at
// most the one block in which the character starts.
func (x *Index) CharOffset(r io.ReaderAt, char int64) (int64, error) {
	switch {
	case char < 0 || char > x.TotalChars():
		return 0, fmt.Errorf("find character %d: the content has %d", char, x.TotalChars())
	case char == x.TotalChars():
		return x.size, nil
	}
	block := sort.Search(x.Blocks(), func(i int) bool { return x.Chars[i+1] > char })
	if x.Chars[block] == char {
		return int64(block)*BlockSize + int64(x.carry[block]), nil
	}
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find character %d: %w", char, err)
	}
	at := int(x.carry[block])
	at += runesLen(data[at:], char-x.Chars[block])
	return int64(block)*BlockSize + int64(at), nil
}

// LineAt returns the number, from 1, of the line that holds the byte at off; a
// newline belongs to the line that it ends. It reads at most one block.
func (x *Index) LineAt(r io.ReaderAt, off int64) (int64, error) {
	if off < 0 || off > x.size {
		return 0, fmt.Errorf("find the line at byte %d: the content has %d bytes", off, x.size)
	}
	block, rest := int(off/BlockSize), int(off%BlockSize)
	switch {
	case off == x.size:
		return x.Lines(), nil
	case rest == 0 || x.Newlines[block] == x.Newlines[block+1]:
		return x.Newlines[block] + 1, nil
	}
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find the line at byte %d: %w", off, err)
	}
	return x.Newlines[block] + countNewlines(data[:rest]) + 1, nil
}

// CharAt returns the number, from 0, of the first character that starts at off
// or after it. It reads at most one block.
func (x *Index) CharAt(r io.ReaderAt, off int64) (int64, error) {
	if off < 0 || off > x.size {
		return 0, fmt.Errorf("find the character at byte %d: the content has %d bytes", off, x.size)
	}
	if off == x.size {
		return x.TotalChars(), nil
	}
	block, rest := int(off/BlockSize), int(off%BlockSize)
	n, at := x.Chars[block], int(x.carry[block])
	if rest <= at {
		return n, nil
	}
	data, err := x.readBlock(r, block)
	if err != nil {
		return 0, fmt.Errorf("find the character at byte %d: %w", off, err)
	}
	cut := rest - openRune(data[at:rest])
	n += countRunes(data[at:cut])
	for at = cut; at < rest; n++ {
		_, size := utf8.DecodeRune(data[at:])
		at += size
	}
	return min(n, x.Chars[block+1]), nil // the last rune of the block may end in the next
}

// blockReader is a content that remembers the blocks that it read, so that
// finding a line and reading it costs one block.
type blockReader interface {
	block(i int) ([]byte, error)
}

// readBlock reads one block and nothing of the next, where its last rune may go
// on: whoever decodes it must not step over that one.
func (x *Index) readBlock(r io.ReaderAt, block int) ([]byte, error) {
	if b, ok := r.(blockReader); ok {
		return b.block(block)
	}
	data := make([]byte, x.BlockLen(block))
	n, err := r.ReadAt(data, int64(block)*BlockSize)
	if n == len(data) {
		return data, nil
	}
	if err == nil || err == io.EOF {
		err = fmt.Errorf("read block %d: only %d of %d bytes are there: %w", block, n, len(data), ErrCorrupt)
	}
	return nil, err
}

// nthNewline returns the position of the nth newline of data, from 1, or -1.
func nthNewline(data []byte, nth int64) int {
	at := -1
	for ; nth > 0; nth-- {
		next := bytes.IndexByte(data[at+1:], '\n')
		if next < 0 {
			return -1
		}
		at += 1 + next
	}
	return at
}

func countNewlines(p []byte) int64 { return int64(bytes.Count(p, []byte{'\n'})) }
