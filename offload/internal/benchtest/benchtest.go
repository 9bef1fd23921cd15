// Package benchtest has the contents and the measuring loop of the benchmarks of
// offload. Only tests import it.
package benchtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Log returns text like the output of a tool.
func Log(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, "2025-01-02T03:04:05.%03dZ INFO request %d from 10.0.%d.%d took %d ms, user %x\n", n%1000, n, r.IntN(256),
			r.IntN(256), r.IntN(3000), r.Uint64())
	}
	return b.Bytes()[:size]
}

// RandomText returns lines of words of at least three letters of an alphabet.
func RandomText(size int, alphabet string) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	letters := []rune(alphabet)
	var b bytes.Buffer
	for b.Len() < size {
		for range 3 + r.IntN(7) {
			b.WriteRune(letters[r.IntN(len(letters))])
		}
		b.WriteByte(" \n"[r.IntN(12)/11])
	}
	return b.Bytes()[:size]
}

const (
	Cyrillic = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
	Chinese  = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"
)

// Race runs the contestants in turns and in random order. It reports the median of each
// in microseconds, and the median ratio of the others to the first over all rounds,
// because a machine is slow in one round and fast in the next. In a fixed order, each
// would always pay for the work that the same other one left behind.
func Race(b *testing.B, names []string, run ...func(n int)) {
	times := make([][]float64, len(run))
	for i := range run { // warm up
		run[i](-1)
	}
	order := rand.New(rand.NewPCG(1, 2))
	for n := 0; b.Loop(); n++ {
		for _, k := range order.Perm(len(run)) {
			start := time.Now()
			run[k](n)
			times[k] = append(times[k], float64(time.Since(start).Nanoseconds())/1e3)
		}
	}
	median := func(v []float64) float64 {
		v = slices.Sorted(slices.Values(v))
		return v[len(v)/2]
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range names {
		b.ReportMetric(median(times[i]), name+"-µs")
		if i > 0 {
			ratios := make([]float64, len(times[i]))
			for n := range ratios {
				ratios[n] = times[i][n] / times[0][n]
			}
			b.ReportMetric(median(ratios), name+"/"+names[0])
		}
	}
}

// Unique changes the text in every round.
func Unique(data []byte, n int) []byte {
	copy(data, fmt.Sprintf("%020d", n))
	return data
}

// Sizes are the content sizes to measure.
var Sizes = []struct {
	Name string
	Size int
}{{"10KB", 10 << 10}, {"100KB", 100 << 10}, {"512KB", 512 << 10}, {"1MB", 1 << 20}, {"10MB", 10 << 20}, {"100MB", 100 << 20}}
