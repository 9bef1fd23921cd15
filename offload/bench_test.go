package offload

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
)

// The benchmarks run what is compared in turns, within each iteration, and
// report the median of each and their ratio: absolute figures drift, ratios
// within one run do not.

// toolLog is text as tools print it.
func toolLog(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, "2025-01-02T03:04:05.%03dZ INFO request %d from 10.0.%d.%d took %d ms, user %x\n", n%1000, n, r.IntN(256), r.IntN(256), r.IntN(3000), r.Uint64())
	}
	return b.Bytes()[:size]
}

// randomText is words of an alphabet, three or more letters each, in lines.
func randomText(size int, alphabet string) []byte {
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
	cyrillic = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
	chinese  = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生"
)

// scripts are texts in several scripts, and what is no text.
func scripts(size int) map[string][]byte {
	log, noise, latin1 := toolLog(size), make([]byte, size), make([]byte, 0, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for _, c := range string(randomText(2*size, "abcdefghijklmnopqrstuvwxyzäöüßé")) {
		latin1 = append(latin1, byte(c))
	}
	return map[string][]byte{
		"ascii": log, "cyrillic": randomText(size, cyrillic), "chinese": randomText(size, chinese),
		"emoji":    randomText(size, "abcdefghijklmnopqrstuvwxyz😀😂🙏👍🎉🚀🔥✅"),
		"one-rune": bytes.ReplaceAll(log, []byte(" ms,"), []byte(" µs,"))[:size], // in each line
		"random":   noise, "latin1": latin1[:size],
	}
}

// tcpServer is a server that is reached over loopback, as workers reach theirs.
func tcpServer(b *testing.B) jetstream.JetStream {
	s := startServer(b, server.Options{Host: "127.0.0.1", Port: -1})
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	return js
}

// race runs the contestants in turns, in random order, and reports their medians
// in microseconds and how many times as long the others take as the first: the
// median over the rounds, because the machine is often fast in one round and
// slow in the next, for all of them alike. In a fixed order each would always
// pay for what the same other one left behind.
func race(b *testing.B, names []string, run ...func(n int)) {
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

var benchSizes = []struct {
	name string
	size int
}{{"10KB", 10 << 10}, {"100KB", 100 << 10}, {"512KB", 512 << 10}, {"1MB", 1 << 20}, {"10MB", 10 << 20}, {"100MB", 100 << 20}}

// unique makes the text another content in every round.
func unique(data []byte, n int) []byte {
	copy(data, fmt.Sprintf("%020d", n))
	return data
}

// BenchmarkIndex measures what an index costs beside the digest that is made with
// it: for 8 blocks of text in several scripts.
func BenchmarkIndex(b *testing.B) {
	for name, data := range scripts(8 * index.BlockSize) {
		b.Run(name, func(b *testing.B) {
			race(b, []string{"sha256", "index", "chars"},
				func(int) { sha256.Sum256(data) },
				func(int) {
					w := index.NewIndexer()
					w.Write(data)
					w.Finish()
				},
				func(int) { textscan.CountRunes(data) })
		})
	}
}

func BenchmarkPut(b *testing.B) {
	for _, c := range benchSizes {
		b.Run("object/"+c.name, func(b *testing.B) { benchObjectPut(b, toolLog(c.size)) })
	}
	b.Run("object/10MB-cyrillic", func(b *testing.B) { benchObjectPut(b, randomText(10<<20, cyrillic)) })
	b.Run("object/10MB-chinese", func(b *testing.B) { benchObjectPut(b, randomText(10<<20, chinese)) })
	for _, c := range benchSizes {
		b.Run("disk/"+c.name, func(b *testing.B) { benchDiskPut(b, c.size) })
	}
	b.Run("source-of-4KB", benchSmallReads)
}

func benchObjectPut(b *testing.B, data []byte) {
	js := tcpServer(b)
	ctx := context.Background()
	s := openTestObject(b, js, ObjectConfig{})
	stock, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "stock"})
	if err != nil {
		b.Fatal(err)
	}
	// The stock client, and files of 4 MiB as we want them for reading: the
	// server makes twice as many.
	if _, err := js.CreateStream(ctx, objectStream("same", 1)); err != nil {
		b.Fatal(err)
	}
	same, err := js.ObjectStore(ctx, "same")
	if err != nil {
		b.Fatal(err)
	}
	ours := func(n int) {
		if _, err := s.Put(ctx, rec("s", fmt.Sprint("a", n+1)), bytes.NewReader(unique(data, n)), nil); err != nil {
			b.Fatal(err)
		}
	}
	blobOnly := func(n int) {
		up, err := s.newUpload(0)
		if err != nil {
			b.Fatal(err)
		}
		defer up.close()
		in, err := s.buffers.take(ctx, bytes.NewReader(unique(data, n+1e9)), func(block []byte) error { return up.send(ctx, block) }, nil)
		if err == nil {
			err = up.commit(ctx, in)
		}
		if err != nil {
			b.Fatal(err)
		}
		s.buffers.release(in)
	}
	theirs := func(to jetstream.ObjectStore) func(n int) {
		return func(n int) {
			if _, err := to.Put(ctx, jetstream.ObjectMeta{Name: fmt.Sprint("a", n)}, bytes.NewReader(unique(data, n))); err != nil {
				b.Fatal(err)
			}
		}
	}
	race(b, []string{"ours", "stock", "same", "blob"}, ours, theirs(stock), theirs(same), blobOnly)
}

func benchDiskPut(b *testing.B, size int) {
	dir := b.TempDir()
	s, err := OpenDisk(filepath.Join(dir, "store"), StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range 20 * lockCount { // whoever takes a lock first makes its file
		unlock, err := s.dir.lock(context.Background(), fmt.Sprint(i))
		if err != nil {
			b.Fatal(err)
		}
		unlock()
	}
	data := toolLog(size)
	ours := func(n int) {
		if _, err := s.Put(context.Background(), rec("s", fmt.Sprint("a", n+1)), bytes.NewReader(unique(data, n)), nil); err != nil {
			b.Fatal(err)
		}
	}
	bare := func(n int) {
		if err := bareWrite(dir, fmt.Sprint("a", n), unique(data, n)); err != nil {
			b.Fatal(err)
		}
	}
	// What is as durable as a Put: a record beside the content.
	pair := func(n int) {
		if err := bareWrite(dir, fmt.Sprint("p", n), unique(data, n), make([]byte, 600)); err != nil {
			b.Fatal(err)
		}
	}
	race(b, []string{"ours", "bare", "pair"}, ours, bare, pair)
}

// bareWrite is the least that makes files of a directory durable.
func bareWrite(dir, name string, contents ...[]byte) error {
	for i, data := range contents {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(name, ".", i, ".tmp")))
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	for i := range contents {
		final := filepath.Join(dir, fmt.Sprint(name, ".", i))
		if err := os.Rename(final+".tmp", final); err != nil {
			return err
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func benchSmallReads(b *testing.B) {
	s := openTestObject(b, tcpServer(b), ObjectConfig{})
	data := toolLog(10 << 20)
	put := func(n int, src io.Reader) {
		if _, err := s.Put(context.Background(), rec("s", fmt.Sprint("a", n)), src, nil); err != nil {
			b.Fatal(err)
		}
	}
	race(b, []string{"full", "small"},
		func(n int) { put(2*n+2, bytes.NewReader(unique(data, 2*n))) },
		func(n int) {
			r := bytes.NewReader(unique(data, 2*n+1))
			put(2*n+3, readFunc(func(p []byte) (int, error) { return r.Read(p[:min(len(p), 4<<10)]) }))
		})
}

func BenchmarkRead(b *testing.B) {
	const size = 100 << 20
	data := toolLog(size)
	js := tcpServer(b)
	ctx := context.Background()
	object := openTestObject(b, js, ObjectConfig{})
	disk, err := OpenDisk(b.TempDir(), StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	stock, err := js.ObjectStore(ctx, DefaultBlobBucket)
	if err != nil {
		b.Fatal(err)
	}
	inObject, err := object.Put(ctx, rec("s", "a"), bytes.NewReader(data), nil)
	if err != nil {
		b.Fatal(err)
	}
	onDisk, err := disk.Put(ctx, rec("s", "a"), bytes.NewReader(data), nil)
	if err != nil {
		b.Fatal(err)
	}
	name := inObject.Digest[len(digestPrefix):]

	// lines reads 20 lines from somewhere in the middle, cold.
	lines := func(s Store, r Record) {
		c, err := s.Open(ctx, r)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		first := r.Lines/4 + rand.Int64N(r.Lines/2)
		from, err := c.Index().LineOffset(c, first)
		if err != nil {
			b.Fatal(err)
		}
		to, err := c.Index().LineOffset(c, first+20)
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, to-from)
		if _, err := c.ReadAt(buf, from); err != nil || bytes.Count(buf, []byte("\n")) != 20 {
			b.Fatalf("%d bytes, %v", len(buf), err)
		}
	}
	scan := func(int) {
		r, err := stock.Get(ctx, name)
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		sc := bufio.NewScanner(r)
		for n := int64(0); n < inObject.Lines/2+20 && sc.Scan(); n++ {
		}
		io.Copy(io.Discard, r)
	}
	b.Run("20-lines", func(b *testing.B) {
		before, n := object.ChunkReads(), 0
		race(b, []string{"object", "scan", "disk"},
			func(int) { n++; lines(object, inObject) }, scan, func(int) { lines(disk, onDisk) })
		b.ReportMetric(float64(object.ChunkReads()-before)/float64(n), "chunks/read")
	})
	whole := func(s Store, r Record) {
		c, err := s.Open(ctx, r)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		buf := make([]byte, index.BlockSize)
		if _, err := io.CopyBuffer(onlyWriter{io.Discard}, io.NewSectionReader(c, 0, c.Size()), buf); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("whole", func(b *testing.B) {
		race(b, []string{"object", "stock", "disk"}, func(int) { whole(object, inObject) }, func(int) {
			r, err := stock.Get(ctx, name)
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			if _, err := io.Copy(io.Discard, r); err != nil {
				b.Fatal(err)
			}
		}, func(int) { whole(disk, onDisk) })
	})
}

// peakHeap runs f and returns by how much live memory grew at most, the
// server's included if it runs in this process.
func peakHeap(f func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	idle, peak := read(), uint64(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return peak
		case <-tick.C:
			if now := read(); now > idle {
				peak = max(peak, now-idle)
			}
		}
	}
}
