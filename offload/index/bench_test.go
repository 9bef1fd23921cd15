package index

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/internal/benchtest"
	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
)

// BenchmarkIndex compares the index with the digest, for 8 blocks of text in several
// scripts.
func BenchmarkIndex(b *testing.B) {
	for name, data := range scripts(8 * BlockSize) {
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

// scripts returns texts in several scripts, and binary data.
func scripts(size int) map[string][]byte {
	log, noise, latin1 := benchtest.Log(size), make([]byte, size), make([]byte, 0, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for _, c := range string(benchtest.RandomText(2*size, "abcdefghijklmnopqrstuvwxyzäöüßé")) {
		latin1 = append(latin1, byte(c))
	}
	return map[string][]byte{
		"ascii": log, "cyrillic": benchtest.RandomText(size, benchtest.Cyrillic), "chinese": benchtest.RandomText(size, benchtest.Chinese),
		"emoji":    benchtest.RandomText(size, "abcdefghijklmnopqrstuvwxyz😀😂🙏👍🎉🚀🔥✅"),
		"one-rune": bytes.ReplaceAll(log, []byte(" ms,"), []byte(" µs,"))[:size], // in each line
		"random":   noise, "latin1": latin1[:size],
	}
}
