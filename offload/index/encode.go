package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The binary form of an index. All numbers are varints, except where noted:
//
//	version (one byte, 1), size,
//	for each block: its newlines, (its bytes - its characters)<<2 | its carry,
//	for each block: its CRC-32C (4 bytes, little endian),
//	the CRC-32C of all bytes before it (4 bytes, little endian).
//
// A block of ASCII text has as many characters as bytes, so it takes two or three
// bytes and its checksum: about 5 KB for 100 MB of text.
const indexVersion = 1

// maxIndexed limits the allocation of a decoder: 1 TiB of content.
const maxIndexed = 1 << 40

// MarshalBinary encodes the index.
func (x *Index) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, 16+9*x.Blocks())
	b = append(b, indexVersion)
	b = binary.AppendUvarint(b, uint64(x.size))
	for i := range x.sums {
		fewer := int64(x.BlockLen(i)) - (x.chars[i+1] - x.chars[i])
		b = binary.AppendUvarint(b, uint64(x.newlines[i+1]-x.newlines[i]))
		b = binary.AppendUvarint(b, uint64(fewer)<<2|uint64(x.carry[i]))
	}
	for _, sum := range x.sums {
		b = binary.LittleEndian.AppendUint32(b, sum)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// maxCarry is how many bytes of a block can belong to a rune of the previous block.
const maxCarry = 3

// UnmarshalBinary decodes an index. It returns an error unless data is the index
// of a possible content.
func (x *Index) UnmarshalBinary(data []byte) error {
	if err := x.decode(data); err != nil {
		return fmt.Errorf("decode index: %w", err)
	}
	return nil
}

func (x *Index) decode(data []byte) error {
	if len(data) < 6 {
		return errShortIndex
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("wrong checksum")
	}
	if body[0] != indexVersion {
		return fmt.Errorf("unknown version %d", body[0])
	}
	d := varints{rest: body[1:]}
	size := d.next(maxIndexed)
	blocks := int((size + BlockSize - 1) / BlockSize)
	// Each block takes at least six bytes. Check this before the allocation.
	if d.err != nil || len(d.rest) < 6*blocks {
		return errShortIndex
	}
	y := Index{
		newlines: make([]int64, 1, blocks+1), chars: make([]int64, 1, blocks+1),
		size: int64(size), carry: make([]uint8, blocks), sums: make([]uint32, blocks),
	}
	for i := range blocks {
		n := int64(y.BlockLen(i))
		newlines := int64(d.next(uint64(n)))
		word := d.next(uint64(n)<<2 | maxCarry)
		fewer := int64(word >> 2)
		chars := n - fewer
		y.carry[i] = uint8(word & 3)
		if d.err != nil {
			return d.err
		}
		if chars < 0 || chars > n || newlines > chars+1 || int64(y.carry[i]) > n || i == 0 && y.carry[i] > 0 {
			return fmt.Errorf("block %d has impossible counts", i)
		}
		y.newlines = append(y.newlines, y.newlines[i]+newlines)
		y.chars = append(y.chars, y.chars[i]+chars)
	}
	if len(d.rest) != 4*blocks {
		return errShortIndex
	}
	for i := range y.sums {
		y.sums[i] = binary.LittleEndian.Uint32(d.rest[4*i:])
	}
	*x = y
	return nil
}

var errShortIndex = errors.New("wrong length")

// varints decodes numbers from a slice. After the first failure, next returns 0.
type varints struct {
	rest []byte
	err  error
}

func (d *varints) next(limit uint64) uint64 {
	if d.err != nil {
		return 0
	}
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > limit || v > math.MaxInt64 {
		d.err = errors.New("a number is missing or too large")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}
