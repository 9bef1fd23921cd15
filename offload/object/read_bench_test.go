package object

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/internal/benchtest"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// logText returns n bytes of a log or a little more.
func logText(n int) []byte {
	var buf bytes.Buffer
	for i := 0; buf.Len() < n; i++ {
		fmt.Fprintf(&buf, "2026-11-20T10:00:00Z INFO request served path=/v1/things/%07d status=200 took=12ms\n", i)
	}
	return buf.Bytes()
}

// BenchmarkReadObject measures reading 100 MB from a server on loopback with our reader
// and with a stock client: all of it, a search, and 20 lines. "new" is a client without
// a cache. The server may cache in both cases.
func BenchmarkReadObject(b *testing.B) {
	js := tcpServer(b)
	store := openTest(b, js, Config{})
	rec := putLog(b, store)
	r := offload.NewReader(store, offload.ReaderConfig{})
	download := func(int) {
		if _, err := io.Copy(io.Discard, stockGet(b, js, rec)); err != nil {
			b.Fatal(err)
		}
	}
	scan := func(re *regexp.Regexp, first, last int64) {
		n, at, lines := 0, int64(0), bufio.NewScanner(stockGet(b, js, rec))
		for lines.Scan() {
			if at++; re != nil && re.Match(lines.Bytes()) || first <= at && at <= last {
				n++
			}
		}
		if re != nil && n != 1 || re == nil && n != 20 || lines.Err() != nil {
			b.Fatal(n, lines.Err())
		}
	}
	b.Run("whole", func(b *testing.B) {
		benchtest.Race(b, []string{"download", "grep", "whole", "download-regexp"}, download,
			func(int) { grepLog(b, r) }, func(int) { readLog(b, r) },
			func(int) { scan(regexp.MustCompile(logPattern), 0, 0) })
	})
	b.Run("20-lines", func(b *testing.B) {
		benchtest.Race(b, []string{"lines", "lines-new", "download-scan"},
			func(n int) { linesOfLog(b, r, n) },
			func(n int) { store.cache = blocks.Cache[string, *cachedBlob]{}; linesOfLog(b, r, n+1000) },
			func(n int) { scan(nil, lineOfLog(n), lineOfLog(n)+19) })
	})
}

// BenchmarkReadObjectCold measures the first read after the server and the client
// start: 20 lines.
func BenchmarkReadObjectCold(b *testing.B) {
	opts := server.Options{Host: "127.0.0.1", Port: -1, StoreDir: b.TempDir()}
	var times []time.Duration
	for n := 0; b.Loop(); n++ {
		func() {
			opts := opts
			s := startServer(b, opts)
			defer s.WaitForShutdown()
			defer s.Shutdown()
			nc, err := nats.Connect(s.ClientURL())
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			js, err := jetstream.New(nc)
			if err != nil {
				b.Fatal(err)
			}
			store := openTest(b, js, Config{})
			if n == 0 {
				putLog(b, store)
				return
			}
			r := offload.NewReader(store, offload.ReaderConfig{})
			start := time.Now()
			linesOfLog(b, r, n)
			times = append(times, time.Since(start))
		}()
	}
	b.ReportMetric(0, "ns/op")
	if slices.Sort(times); len(times) > 0 {
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "lines-cold-µs")
		b.ReportMetric(float64(times[len(times)-1].Microseconds()), "slowest-µs")
	}
}

func BenchmarkReadDisk(b *testing.B) {
	dir := b.TempDir()
	store, err := disk.Open(dir, offload.StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	putLog(b, store)
	r := offload.NewReader(store, offload.ReaderConfig{})
	read := func(int) {
		f, err := os.Open(filepath.Join(dir, "s", "a.md"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
			b.Fatal(err)
		}
	}
	benchtest.Race(b, []string{"read", "grep", "whole", "lines"}, read,
		func(int) { grepLog(b, r) }, func(int) { readLog(b, r) }, func(n int) { linesOfLog(b, r, n) })
}

const logPattern = "things/0999999"

func putLog(b *testing.B, store offload.Store) offload.Record {
	return storetest.Put(b, store, storetest.NewRecord("s", "a"), logText(100<<20))
}

func stockGet(b *testing.B, js jetstream.JetStream, rec offload.Record) io.Reader {
	bucket, err := js.ObjectStore(b.Context(), DefaultBlobBucket)
	if err != nil {
		b.Fatal(err)
	}
	o, err := bucket.Get(b.Context(), rec.Digest[len(offload.DigestPrefix):])
	if err != nil {
		b.Fatal(err)
	}
	return o
}

func grepLog(b *testing.B, r *offload.Reader) {
	res, err := r.Grep(b.Context(), "s", "a", offload.GrepQuery{Pattern: logPattern})
	if err != nil || res.Matches != 1 {
		b.Fatal(res, err)
	}
}

func readLog(b *testing.B, r *offload.Reader) {
	_, c, err := r.Open(b.Context(), "s", "a")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{io.NewSectionReader(c, 0, c.Size())}); err != nil {
		b.Fatal(err)
	}
}

// lineOfLog returns a line in another file of the server for each n.
func lineOfLog(n int) int64 { return 1 + (int64(n)+2)*777_777%1_200_000 }

func linesOfLog(b *testing.B, r *offload.Reader, n int) {
	first := lineOfLog(n)
	if _, err := r.GetByLines(b.Context(), "s", "a", offload.LinesQuery{StartLine: first, EndLine: first + 19}); err != nil {
		b.Fatal(err)
	}
}
