package state

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/state/durable"
)

const savers = 64

// BenchmarkConcurrentSaves compares 64 concurrent callers of SetLastChannel with one
// durable.WriteFile for each save under a lock, on the same document. Each iteration
// runs both, so that other load affects both; "ratio" is the median.
func BenchmarkConcurrentSaves(b *testing.B) {
	const grouped, single = 100 * savers, 5 * savers
	store, plain := prepare(b), prepare(b)
	var ratios, perSecond []float64
	for b.Loop() {
		one := float64(single) / saveAll(b, single, plainSaver(plain)).Seconds()
		group := float64(grouped) / saveAll(b, grouped, func(saver int) error {
			return SetLastChannel(b.Context(), store, fmt.Sprintf("s%d", saver), Channel{Name: "telegram", ChatID: "42"}, true)
		}).Seconds()
		ratios = append(ratios, group/one)
		perSecond = append(perSecond, group)
	}
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(perSecond), "saves/s")
	b.ReportMetric(median(perSecond)/median(ratios), "single-saves/s")
	b.ReportMetric(0, "ns/op") // a round has no meaning of its own
}

func BenchmarkGet(b *testing.B) {
	f := prepare(b)
	for b.Loop() {
		if _, err := LastChannel(b.Context(), f, "s1"); err != nil {
			b.Fatal(err)
		}
	}
}

// prepare opens a file with one fact for each saver.
func prepare(b *testing.B) *File {
	f, err := OpenFile(filepath.Join(b.TempDir(), "state.json"), FileConfig{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range savers {
		if err := SetLastChannel(b.Context(), f, fmt.Sprintf("s%d", i), Channel{Name: "telegram", ChatID: "42"}, true); err != nil {
			b.Fatal(err)
		}
	}
	return f
}

// plainSaver writes the whole document for each save, without group commit.
func plainSaver(f *File) func(int) error {
	var mu sync.Mutex
	doc := f.seen.Load().doc
	return func(saver int) error {
		mu.Lock()
		defer mu.Unlock()
		next, data, err := doc.with(map[string]string{fmt.Sprintf("last_channel.s%d", saver): "telegram:42"}, time.Now().UTC())
		if err != nil {
			return err
		}
		doc = next
		return durable.WriteFile(f.path, data, 0o600)
	}
}

func saveAll(b *testing.B, total int, save func(saver int) error) time.Duration {
	runtime.GC() // each side pays for its own garbage
	var left atomic.Int64
	left.Store(int64(total))
	var wg sync.WaitGroup
	start := time.Now()
	for saver := range savers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := save(saver); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
