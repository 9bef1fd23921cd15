package index

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/internal/benchtest"
	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
)

// BenchmarkIndex compares the index with the digest, for 8 blocks of text in several
// scripts.
func BenchmarkIndex(b *testing.B) {
	for name, data := range benchtest.Scripts(8 * BlockSize) {
		b.Run(name, func(b *testing.B) {
			benchtest.Race(b, []string{"sha256", "index", "chars"},
				func(int) { sha256.Sum256(data) },
				func(int) {
					indexOf(data)
				},
				func(int) { textscan.CountRunes(data) })
		})
	}
}

// BenchmarkReadChars compares the lookups of a character in the middle of a block in
// memory with the digest of the block.
func BenchmarkReadChars(b *testing.B) {
	data := benchtest.RandomText(BlockSize, benchtest.Chinese)
	x, _ := indexOf(data)
	r := bytes.NewReader(data)
	benchtest.Race(b, []string{"sha256", "offset", "at"}, func(int) { sha256.Sum256(data) },
		func(int) {
			if _, err := x.CharOffset(r, x.TotalChars()/2); err != nil {
				b.Fatal(err)
			}
		},
		func(int) {
			if _, err := x.CharAt(r, x.Size()/2); err != nil {
				b.Fatal(err)
			}
		})
}
