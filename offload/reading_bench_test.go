package offload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

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

// BenchmarkReadObject measures reading 100 MB back from a real server, against
// what a stock client would do.
func BenchmarkReadObject(b *testing.B) {
	js := connect(b, startServer(b, server.Options{}))
	store := openTestObject(b, js, ObjectConfig{})
	benchmarkReading(b, store)

	bucket, err := js.ObjectStore(b.Context(), DefaultBlobBucket)
	if err != nil {
		b.Fatal(err)
	}
	rec, err := store.Get(b.Context(), "s", "a")
	if err != nil {
		b.Fatal(err)
	}
	name := rec.Digest[len(digestPrefix):]
	get := func(b *testing.B) jetstream.ObjectResult {
		o, err := bucket.Get(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		return o
	}
	b.Run("stock get", func(b *testing.B) {
		for b.Loop() {
			if _, err := io.Copy(io.Discard, get(b)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stock get and scan", func(b *testing.B) {
		re := regexp.MustCompile("things/0999999")
		for b.Loop() {
			n, lines := 0, bufio.NewScanner(get(b))
			for lines.Scan() {
				if re.Match(lines.Bytes()) {
					n++
				}
			}
			if n != 1 || lines.Err() != nil {
				b.Fatal(n, lines.Err())
			}
		}
	})
}

func BenchmarkReadDisk(b *testing.B) {
	store, err := OpenDisk(b.TempDir(), StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	benchmarkReading(b, store)
}

func benchmarkReading(b *testing.B, store Store) {
	putArtifact(b, store, "s", "a", logText(100<<20))
	r := NewReader(store, ReaderConfig{})
	b.Run("grep literal", func(b *testing.B) {
		for b.Loop() {
			res, err := r.Grep(b.Context(), "s", "a", GrepQuery{Pattern: "things/0999999"})
			if err != nil || res.Matches != 1 {
				b.Fatal(res, err)
			}
		}
	})
	b.Run("20 lines", func(b *testing.B) {
		line := int64(1)
		for b.Loop() {
			line = (line + 77_777) % 1_200_000
			if _, err := r.GetByLines(b.Context(), "s", "a", line+1, line+20); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			_, c, err := r.Open(b.Context(), "s", "a")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, struct{ io.Reader }{io.NewSectionReader(c, 0, c.Size())}); err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	})
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
