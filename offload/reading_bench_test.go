package offload

import (
	"bufio"
	"bytes"
	"crypto/sha256"
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

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/tools"
)

// logText is n bytes of a log, and a bit.
func logText(n int) []byte {
	var buf bytes.Buffer
	for i := 0; buf.Len() < n; i++ {
		fmt.Fprintf(&buf, "2026-11-20T10:00:00Z INFO request served path=/v1/things/%07d status=200 took=12ms\n", i)
	}
	return buf.Bytes()
}

// BenchmarkReadObject measures reading 100 MB back from a server behind loopback,
// against what a stock client does: the whole, a search, and 20 lines from
// anywhere. "new" is a client that knows nothing of the content yet; the server
// keeps what it read in memory for as long as it likes, in both.
func BenchmarkReadObject(b *testing.B) {
	js := tcpServer(b)
	store := openTestObject(b, js, ObjectConfig{})
	rec := putLog(b, store)
	r := NewReader(store, ReaderConfig{})
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
		race(b, []string{"download", "grep", "whole", "download-regexp"}, download,
			func(int) { grepLog(b, r) }, func(int) { readLog(b, r) },
			func(int) { scan(regexp.MustCompile(logPattern), 0, 0) })
	})
	b.Run("20-lines", func(b *testing.B) {
		race(b, []string{"lines", "lines-new", "download-scan"},
			func(n int) { linesOfLog(b, r, n) },
			func(n int) { store.opened = openBlobs{}; linesOfLog(b, r, n+1000) },
			func(n int) { scan(nil, lineOfLog(n), lineOfLog(n)+19) })
	})
}

// BenchmarkReadObjectCold measures 20 lines, the first thing that is read after
// the server and the client have started.
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
			store := openTestObject(b, js, ObjectConfig{})
			if n == 0 {
				putLog(b, store)
				return
			}
			r := NewReader(store, ReaderConfig{})
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
	store, err := OpenDisk(dir, StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	putLog(b, store)
	r := NewReader(store, ReaderConfig{})
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
	race(b, []string{"read", "grep", "whole", "lines"}, read,
		func(int) { grepLog(b, r) }, func(int) { readLog(b, r) }, func(n int) { linesOfLog(b, r, n) })
}

// BenchmarkReadChars measures finding a character in the middle of a block that
// is in memory, and the number of one, beside the digest of the block.
func BenchmarkReadChars(b *testing.B) {
	data := randomText(index.BlockSize, chinese)
	x, _ := indexOf(data)
	r := bytes.NewReader(data)
	race(b, []string{"sha256", "offset", "at"}, func(int) { sha256.Sum256(data) },
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

const logPattern = "things/0999999"

func putLog(b *testing.B, store Store) Record {
	putArtifact(b, store, "s", "a", logText(100<<20))
	rec, err := store.Get(b.Context(), "s", "a")
	if err != nil {
		b.Fatal(err)
	}
	return rec
}

func stockGet(b *testing.B, js jetstream.JetStream, rec Record) io.Reader {
	bucket, err := js.ObjectStore(b.Context(), DefaultBlobBucket)
	if err != nil {
		b.Fatal(err)
	}
	o, err := bucket.Get(b.Context(), rec.Digest[len(digestPrefix):])
	if err != nil {
		b.Fatal(err)
	}
	return o
}

func grepLog(b *testing.B, r *Reader) {
	res, err := r.Grep(b.Context(), "s", "a", GrepQuery{Pattern: logPattern})
	if err != nil || res.Matches != 1 {
		b.Fatal(res, err)
	}
}

func readLog(b *testing.B, r *Reader) {
	_, c, err := r.Open(b.Context(), "s", "a")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if _, err := io.Copy(io.Discard, struct{ io.Reader }{io.NewSectionReader(c, 0, c.Size())}); err != nil {
		b.Fatal(err)
	}
}

// lineOfLog is another place each time, in another of the server's files.
func lineOfLog(n int) int64 { return 1 + (int64(n)+2)*777_777%1_200_000 }

func linesOfLog(b *testing.B, r *Reader, n int) {
	first := lineOfLog(n)
	if _, err := r.GetByLines(b.Context(), "s", "a", first, first+19); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOffload measures the whole of Result for outputs in memory.
func BenchmarkOffload(b *testing.B) {
	for _, size := range []int{1 << 20, 10 << 20} {
		text := string(logText(size))
		b.Run(fmt.Sprint(size>>20, "MiB"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			n := 0
			for b.Loop() {
				n++
				o := NewOffloader(NewMem(StoreConfig{}), Config{})
				if _, err := o.Result(b.Context(), tools.Call{ID: fmt.Sprint(n), Session: "s", Tool: "t"}, tools.Definition{}, tools.NewToolResult(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
