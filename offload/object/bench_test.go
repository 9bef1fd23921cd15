package object

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/benchtest"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// tcpServer starts a server on the loopback interface.
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

func BenchmarkPut(b *testing.B) {
	for _, c := range benchtest.Sizes {
		b.Run("object/"+c.Name, func(b *testing.B) { benchObjectPut(b, benchtest.Log(c.Size)) })
	}
	b.Run("object/10MB-cyrillic", func(b *testing.B) { benchObjectPut(b, benchtest.RandomText(10<<20, benchtest.Cyrillic)) })
	b.Run("object/10MB-chinese", func(b *testing.B) { benchObjectPut(b, benchtest.RandomText(10<<20, benchtest.Chinese)) })
	b.Run("source-of-4KB", benchSmallReads)
}

func benchObjectPut(b *testing.B, data []byte) {
	js := tcpServer(b)
	ctx := context.Background()
	s := openTest(b, js, Config{})
	stock, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "stock"})
	if err != nil {
		b.Fatal(err)
	}
	// The stock client with our files of 4 MiB: the server creates twice as many files.
	if _, err := js.CreateStream(ctx, jsapi.ObjectStream("same", 1)); err != nil {
		b.Fatal(err)
	}
	same, err := js.ObjectStore(ctx, "same")
	if err != nil {
		b.Fatal(err)
	}
	ours := func(n int) {
		if _, err := s.Put(ctx, storetest.NewRecord("s", fmt.Sprint("a", n+1)), bytes.NewReader(benchtest.Unique(data, n)), nil); err != nil {
			b.Fatal(err)
		}
	}
	blobOnly := func(n int) {
		up := s.newUpload(0)
		defer up.close()
		in, err := record.Ingest(ctx, bytes.NewReader(benchtest.Unique(data, n+1e9)), func(block []byte) error { return up.send(ctx, block) })
		if err == nil {
			err = up.commit(ctx, in)
		}
		if err != nil {
			b.Fatal(err)
		}
		in.Release()
	}
	theirs := func(to jetstream.ObjectStore) func(n int) {
		return func(n int) {
			if _, err := to.Put(ctx, jetstream.ObjectMeta{Name: fmt.Sprint("a", n)}, bytes.NewReader(benchtest.Unique(data, n))); err != nil {
				b.Fatal(err)
			}
		}
	}
	benchtest.Race(b, []string{"ours", "stock", "same", "blob"}, ours, theirs(stock), theirs(same), blobOnly)
}

func benchSmallReads(b *testing.B) {
	s := openTest(b, tcpServer(b), Config{})
	data := benchtest.Log(10 << 20)
	put := func(n int, src io.Reader) {
		if _, err := s.Put(context.Background(), storetest.NewRecord("s", fmt.Sprint("a", n)), src, nil); err != nil {
			b.Fatal(err)
		}
	}
	benchtest.Race(b, []string{"full", "small"},
		func(n int) { put(2*n+2, bytes.NewReader(benchtest.Unique(data, 2*n))) },
		func(n int) {
			r := bytes.NewReader(benchtest.Unique(data, 2*n+1))
			put(2*n+3, readFunc(func(p []byte) (int, error) { return r.Read(p[:min(len(p), 4<<10)]) }))
		})
}

func BenchmarkRead(b *testing.B) {
	const size = 100 << 20
	data := benchtest.Log(size)
	js := tcpServer(b)
	ctx := context.Background()
	object := openTest(b, js, Config{})
	disk, err := disk.Open(b.TempDir(), offload.StoreConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	stock, err := js.ObjectStore(ctx, DefaultBlobBucket)
	if err != nil {
		b.Fatal(err)
	}
	inObject, err := object.Put(ctx, storetest.NewRecord("s", "a"), bytes.NewReader(data), nil)
	if err != nil {
		b.Fatal(err)
	}
	onDisk, err := disk.Put(ctx, storetest.NewRecord("s", "a"), bytes.NewReader(data), nil)
	if err != nil {
		b.Fatal(err)
	}
	name := inObject.Digest[len(offload.DigestPrefix):]

	// lines reads 20 lines in the middle without a cache.
	lines := func(s offload.Store, r offload.Record) {
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
		before, n := object.reads.Load(), 0
		benchtest.Race(b, []string{"object", "scan", "disk"},
			func(int) { n++; lines(object, inObject) }, scan, func(int) { lines(disk, onDisk) })
		b.ReportMetric(float64(object.reads.Load()-before)/float64(n), "chunks/read")
	})
	whole := func(s offload.Store, r offload.Record) {
		c, err := s.Open(ctx, r)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		buf := make([]byte, index.BlockSize)
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.NewSectionReader(c, 0, c.Size()), buf); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("whole", func(b *testing.B) {
		benchtest.Race(b, []string{"object", "stock", "disk"}, func(int) { whole(object, inObject) }, func(int) {
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
