package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func indexOf(data []byte) (*Index, string) {
	w := NewIndexer()
	for block := range slices.Chunk(data, BlockSize) {
		w.Block(block)
	}
	return w.Finish()
}

// texts returns contents whose runes, newlines and invalid bytes are at, before and
// after the ends of blocks.
func texts() map[string][]byte {
	m := map[string][]byte{
		"empty":    nil,
		"newline":  []byte("\n"),
		"one line": []byte("hello"),
		"crlf":     []byte("a\r\nb\r\n"),
	}
	for name, unit := range map[string]string{
		"ascii": "some words in a line\n", "three bytes": "漢字\n", "four bytes": "😀", "broken": "\xe4\xb8",
		"mixed": "é漢😀\xff\xf0\x9f\n", "newlines": "\n", "no newline": "x",
	} {
		for _, shift := range []int{0, 1, 2, 3} {
			for _, size := range []int{BlockSize - 1, BlockSize, BlockSize + 1, 2*BlockSize + 2, 3*BlockSize + 77} {
				b := []byte(strings.Repeat("#", shift) + strings.Repeat(unit, 1+size/len(unit)))
				m[name+strings.Repeat("'", shift)+" "+string(rune('a'+size%26))] = b[:size]
			}
		}
	}
	return m
}

func TestIndexAgreesWithScanning(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and slow under the race detector")
	}
	for name, data := range texts() {
		x, _ := indexOf(data)
		r := bytes.NewReader(data)
		if got, want := x.Size(), int64(len(data)); got != want {
			t.Errorf("%s: size %d, want %d", name, got, want)
		}
		if got, want := x.Lines(), int64(bytes.Count(data, []byte("\n"))+1); got != want {
			t.Errorf("%s: %d lines, want %d", name, got, want)
		}
		if got, want := x.TotalChars(), int64(utf8.RuneCount(data)); got != want {
			t.Errorf("%s: %d chars, want %d", name, got, want)
		}
		starts := []int64{0}
		for i, c := range data {
			if c == '\n' {
				starts = append(starts, int64(i)+1)
			}
		}
		for range 30 {
			line := 1 + rand.Int64N(x.Lines())
			off, err := x.LineOffset(r, line)
			if err != nil || off != starts[line-1] {
				t.Fatalf("%s: line %d at %d, %v; want %d", name, line, off, err, starts[line-1])
			}
		}
		var chars []int64
		for i := 0; i < len(data); {
			chars = append(chars, int64(i))
			_, size := utf8.DecodeRune(data[i:])
			i += size
		}
		chars = append(chars, int64(len(data)))
		for i := range 60 {
			n := rand.IntN(len(chars))
			if i < x.Blocks() { // the character at the start of a block, the hardest case
				n = min(int(x.chars[i]), len(chars)-1)
			}
			off, err := x.CharOffset(r, int64(n))
			if err != nil || off != chars[n] {
				t.Fatalf("%s: char %d at %d, %v; want %d", name, n, off, err, chars[n])
			}
			if got, err := x.CharAt(r, off); err != nil || got != int64(n) {
				t.Fatalf("%s: byte %d is char %d, %v; want %d", name, off, got, err, n)
			}
		}
	}
}

// A block does not show whether a byte at its end belongs to a rune that ends in the
// next block.
func TestCharAtInARuneThatTwoBlocksShare(t *testing.T) {
	for _, last := range []string{"😀", "漢", "é", "\xf0\x9f\x98a", "\xf0\x9faa"} {
		for in := 1; in < len(last); in++ {
			data := []byte(strings.Repeat("a", BlockSize-in) + last)
			x, _ := indexOf(data)
			for off := BlockSize - in; off <= BlockSize; off++ {
				got, err := x.CharAt(bytes.NewReader(data), int64(off))
				if want := int64(charsBefore(data, off)); err != nil || got != want {
					t.Errorf("%q, %d bytes of it in the block: byte %d is char %d, %v; want %d", last, in, off, got, err, want)
				}
			}
		}
	}
}

func TestIndexOutOfRange(t *testing.T) {
	data := []byte("one\ntwo")
	x, _ := indexOf(data)
	r := bytes.NewReader(data)
	if off, err := x.LineOffset(r, 3); err != nil || off != 7 {
		t.Errorf("the line after the last: %d, %v; want 7, nil", off, err)
	}
	for _, line := range []int64{-1, 0, 4} {
		if _, err := x.LineOffset(r, line); err == nil || !strings.Contains(err.Error(), "1 to 2") {
			t.Errorf("line %d: %v, want an error that gives the range", line, err)
		}
	}
	for _, off := range []int64{-1, 8} {
		if _, err := x.CharAt(r, off); err == nil {
			t.Errorf("char at %d: want an error", off)
		}
		if _, err := x.CharOffset(r, off); err == nil {
			t.Errorf("char %d: want an error", off)
		}
	}
}

// countingReader records the blocks that were read.
type countingReader struct {
	*bytes.Reader
	blocks map[int64]bool
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	for b := off / BlockSize; b <= (off+int64(len(p))-1)/BlockSize; b++ {
		r.blocks[b] = true
	}
	return r.Reader.ReadAt(p, off)
}

func TestIndexReadsOneBlock(t *testing.T) {
	data := []byte(strings.Repeat("some words in a line, é\n", 50*BlockSize/24))
	x, _ := indexOf(data)
	for name, find := range map[string]func(r *countingReader) error{
		"line":    func(r *countingReader) error { _, err := x.LineOffset(r, x.Lines()/2); return err },
		"char":    func(r *countingReader) error { _, err := x.CharOffset(r, x.TotalChars()/2); return err },
		"char at": func(r *countingReader) error { _, err := x.CharAt(r, x.Size()/2+9); return err },
	} {
		r := &countingReader{bytes.NewReader(data), map[int64]bool{}}
		if err := find(r); err != nil || len(r.blocks) > 1 {
			t.Errorf("%s: touched %d blocks, %v; want at most 1", name, len(r.blocks), err)
		}
	}
}

func TestIndexCheck(t *testing.T) {
	data := bytes.Repeat([]byte("abc\n"), BlockSize/2)
	x, _ := indexOf(data)
	block := bytes.Clone(data[BlockSize : 2*BlockSize])
	if err := x.Check(1, block); err != nil {
		t.Errorf("sound block: %v", err)
	}
	block[17] ^= 1
	for name, err := range map[string]error{
		"flipped bit": x.Check(1, block), "short": x.Check(1, data[:9]), "no such block": x.Check(99, data[:9]),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func TestIndexEncoding(t *testing.T) {
	for name, data := range texts() {
		x, _ := indexOf(data)
		b, _ := x.MarshalBinary()
		var y Index
		if err := y.UnmarshalBinary(b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again, _ := y.MarshalBinary(); !bytes.Equal(again, b) {
			t.Errorf("%s: decoded and encoded again it differs", name)
		}
		for _, bad := range [][]byte{nil, b[:len(b)-1], append(bytes.Clone(b), 0), flip(b)} {
			if err := y.UnmarshalBinary(bad); err == nil {
				t.Errorf("%s: a damaged index was accepted", name)
			}
		}
	}
}

func TestIndexIsSmall(t *testing.T) {
	w := NewIndexer()
	block := bytes.Repeat([]byte("2025-01-02T03:04:05Z INFO a line of a log with some words in it\n"), BlockSize/64)
	for range 800 {
		w.Block(block)
	}
	x, _ := w.Finish()
	if b, _ := x.MarshalBinary(); len(b) > 6<<10 {
		t.Errorf("the index of 100 MB has %d bytes, want at most 6 KiB", len(b))
	}
}

func flip(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)/2] ^= 0x10
	return b
}

// FuzzIndexDecode: no bytes make the decoder or the decoded index panic.
func FuzzIndexDecode(f *testing.F) {
	for _, data := range texts() {
		x, _ := indexOf(data)
		b, _ := x.MarshalBinary()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var x Index
		if x.UnmarshalBinary(resum(b)) != nil {
			return
		}
		r := bytes.NewReader(make([]byte, min(x.Size(), 4*BlockSize)))
		for _, n := range []int64{0, 1, x.Lines(), x.TotalChars(), x.Size() / 2, x.Size()} {
			x.LineOffset(r, n)
			x.CharOffset(r, n)
			x.CharAt(r, n)
		}
	})
}

// FuzzIndexer: the index agrees with a scan.
func FuzzIndexer(f *testing.F) {
	f.Add([]byte("é漢😀\xff\xf0\x9f\n"), 3)
	f.Fuzz(func(t *testing.T, unit []byte, shift int) {
		if len(unit) == 0 || len(unit) > 64 || shift < 0 || shift > 5 {
			return
		}
		data := bytes.Repeat(unit, BlockSize/len(unit)+2)
		data = append(bytes.Repeat([]byte("x"), shift), data...)
		x, _ := indexOf(data)
		if got, want := x.chars[1], int64(charsBefore(data, BlockSize)); got != want {
			t.Fatalf("%d characters start before the second block, want %d", got, want)
		}
	})
}

func charsBefore(data []byte, end int) (n int) {
	for i := 0; i < end; n++ {
		_, size := utf8.DecodeRune(data[i:])
		i += size
	}
	return n
}

// resum corrects the checksum of fuzzed bytes, so that the fuzzer reaches the code
// after its check.
func resum(b []byte) []byte {
	if len(b) < 5 {
		return b
	}
	body := b[: len(b)-4 : len(b)-4]
	return binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, castagnoli))
}
