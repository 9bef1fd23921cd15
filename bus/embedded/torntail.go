package embedded

import (
	"encoding/binary"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// A record of a block file of the server starts with its length (the highest bit says that
// it has headers), its sequence (the two highest bits mark deleted messages), its time in
// ns and the length of its subject. The subject, the message and a checksum follow.
const (
	recordHeader   = 4 + 8 + 8 + 2
	smallestRecord = recordHeader + 8
	lengthBits     = 1<<31 - 1
	sequenceBits   = 1<<62 - 1
)

// tornTails returns the size of the incomplete record at the end of each stream that has
// one. A process that dies during a write leaves it. The server removes it at its next
// start and reports the bytes as lost, but it has acknowledged nothing of them. So
// tornTails must be called before the server starts.
func tornTails(dir string) map[string]int64 {
	tails := map[string]int64{}
	root := os.DirFS(dir)
	streams, _ := fs.Glob(root, "jetstream/*/streams/*/msgs") // the pattern is valid
	for _, stream := range streams {
		if n := tornTail(root, stream, lastBlock(root, stream)); n > 0 {
			tails[path.Base(path.Dir(stream))] = n
		}
	}
	return tails
}

// lastBlock returns the name of the block file with the highest number, or "".
func lastBlock(root fs.FS, dir string) (last string) {
	files, _ := fs.ReadDir(root, dir)
	highest := -1
	for _, file := range files {
		number, isBlock := strings.CutSuffix(file.Name(), ".blk")
		if n, err := strconv.Atoi(number); isBlock && err == nil && n > highest {
			last, highest = file.Name(), n
		}
	}
	return last
}

// tornTail returns the size of the incomplete record at the end of a block file. It is 0 if
// there is none, or if the file cannot be read, which the server reports.
func tornTail(root fs.FS, dir, name string) int64 {
	file, err := root.Open(path.Join(dir, name))
	if err != nil {
		return 0
	}
	defer file.Close()
	info, err := file.Stat()
	block, ok := file.(*os.File)
	if err != nil || !ok {
		return 0
	}
	header := make([]byte, recordHeader)
	for at, size := int64(0), info.Size(); at < size; {
		rest := size - at
		if rest < recordHeader {
			return rest
		}
		if _, err := block.ReadAt(header, at); err != nil {
			return 0
		}
		length := int64(binary.LittleEndian.Uint32(header) & lengthBits)
		if length > rest || length == 0 {
			tail := make([]byte, rest)
			if _, err := block.ReadAt(tail, at); err == nil && isTorn(tail) {
				return rest
			}
		}
		if length < smallestRecord {
			return 0
		}
		at += length
	}
	return 0
}

// isTorn reports whether the end of a block is one incomplete record, or only zeros, which
// some file systems leave after a power failure. If other records follow, its length is
// damaged.
func isTorn(tail []byte) bool {
	if strings.Trim(string(tail), "\x00") == "" {
		return true
	}
	sequence, written := sequenceOf(tail), timeOf(tail)
	for at := 1; at+smallestRecord <= len(tail); at++ {
		record := tail[at:]
		length := int(binary.LittleEndian.Uint32(record) & lengthBits)
		if length >= smallestRecord && length <= len(record) && timeOf(record).Sub(written).Abs() < 365*24*time.Hour &&
			max(sequenceOf(record), sequence)-min(sequenceOf(record), sequence) < 1<<32 {
			return false
		}
	}
	return binary.LittleEndian.Uint32(tail)&lengthBits > 0
}

func sequenceOf(record []byte) uint64 {
	return binary.LittleEndian.Uint64(record[4:]) & sequenceBits
}

func timeOf(record []byte) time.Time {
	return time.Unix(0, int64(binary.LittleEndian.Uint64(record[12:])))
}
