package offload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The binary form of an index, all numbers as varints unless said otherwise:
//
//	version (one byte, 1), size,
//	for each block: its newlines, (its bytes - its characters)<<2 | its carry,
//	for each block: its CRC-32C (4 bytes, little endian),
//	the CRC-32C of all that comes before (4 bytes, little endian).
//
// Text in ASCII has as many characters as bytes, so that a block costs two or
// three bytes and its checksum: about 5 KB for 100 MB.
const indexVersion = 1

// maxIndexed bounds what a decoder allocates: 1 TiB of content.
const maxIndexed = 1 << 40

// MarshalBinary encodes the index.
func (x *Index) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, 16+9*x.Blocks())
	b = append(b, indexVersion)
	b = binary.AppendUvarint(b, uint64(x.size))
	for i := range x.sums {
		fewer := int64(x.BlockLen(i)) - (x.Chars[i+1] - x.Chars[i])
		b = binary.AppendUvarint(b, uint64(x.Newlines[i+1]-x.Newlines[i]))
		b = binary.AppendUvarint(b, uint64(fewer)<<2|uint64(x.carry[i]))
	}
	for _, sum := range x.sums {
		b = binary.LittleEndian.AppendUint32(b, sum)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// maxCarry is how many bytes of a block may belong to a rune of the block
// before.
const maxCarry = 3

// UnmarshalBinary decodes an index. It accepts any bytes and returns an error
// for those that are no index of a possible content.
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
		return errors.New("its checksum differs")
	}
	if body[0] != indexVersion {
		return fmt.Errorf("version %d is not known", body[0])
	}
	d := varints{rest: body[1:]}
	size := d.next(maxIndexed)
	blocks := int((size + BlockSize - 1) / BlockSize)
	// Each block takes six bytes or more: no allocation for less.
	if d.err != nil || len(d.rest) < 6*blocks {
		return errShortIndex
	}
	y := Index{
		Newlines: make([]int64, 1, blocks+1), Chars: make([]int64, 1, blocks+1),
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
			return fmt.Errorf("the counts of block %d are impossible", i)
		}
		y.Newlines = append(y.Newlines, y.Newlines[i]+newlines)
		y.Chars = append(y.Chars, y.Chars[i]+chars)
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

var errShortIndex = errors.New("it is too short or too long")

// varints reads numbers off a slice; the first failure sticks.
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
		d.err = errors.New("a number in it is missing or too large")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}
