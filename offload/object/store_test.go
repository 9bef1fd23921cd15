package object

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// startServer runs a server in this process, without a network listener unless opts has
// a port.
func startServer(t testing.TB, opts server.Options) *server.Server {
	t.Helper()
	opts.JetStream, opts.NoSigs = true, true
	if opts.Port == 0 {
		opts.DontListen = true
	}
	if opts.StoreDir == "" {
		opts.StoreDir = t.TempDir()
	}
	s, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(3 * time.Minute) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func connect(t testing.TB, s *server.Server, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", append(opts, nats.InProcessServer(s))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func openTest(t testing.TB, js jetstream.JetStream, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), js, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newHarness(t *testing.T) storetest.Harness {
	js := connect(t, startServer(t, server.Options{}))
	ctx := context.Background()
	stream := func(t *testing.T) jetstream.Stream {
		s, err := js.Stream(ctx, "OBJ_"+DefaultBlobBucket)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	// chunks lists the chunk messages of a record.
	chunks := func(t *testing.T, rec offload.Record) (subject string, seqs []uint64) {
		os, err := js.ObjectStore(ctx, DefaultBlobBucket)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.GetInfo(ctx, strings.TrimPrefix(rec.Digest, offload.DigestPrefix))
		if err != nil {
			t.Fatal(err)
		}
		subject = "$O." + DefaultBlobBucket + ".C." + info.NUID
		last := stream(t).CachedInfo().State.LastSeq
		for seq := uint64(1); seq <= last; seq++ {
			if m, err := stream(t).GetMsg(ctx, seq); err == nil && m.Subject == subject {
				seqs = append(seqs, seq)
			}
		}
		return subject, seqs
	}
	return storetest.Harness{
		Open: func(t *testing.T, cfg offload.StoreConfig) offload.Store {
			return openTest(t, js, Config{StoreConfig: cfg})
		},
		// A stored message cannot be changed, so add another one and point the object
		// to it.
		Corrupt: func(t *testing.T, rec offload.Record, i int) {
			subject, seqs := chunks(t, rec)
			m, err := stream(t).GetMsg(ctx, seqs[i])
			if err != nil {
				t.Fatal(err)
			}
			if err := stream(t).DeleteMsg(ctx, seqs[i]); err != nil {
				t.Fatal(err)
			}
			m.Data[60] ^= 1
			ack, err := js.Publish(ctx, subject, m.Data)
			if err != nil {
				t.Fatal(err)
			}
			repoint(t, js, rec, seqs[i], ack.Sequence)
		},
		Lose: func(t *testing.T, rec offload.Record, i int) {
			_, seqs := chunks(t, rec)
			if err := stream(t).DeleteMsg(ctx, seqs[i]); err != nil {
				t.Fatal(err)
			}
		},
		Stored: func(t *testing.T) int {
			info, err := stream(t).Info(ctx, jetstream.WithSubjectFilter(">"))
			if err != nil {
				t.Fatal(err)
			}
			objects, uploads := 0, 0
			for subject := range info.State.Subjects {
				if strings.Contains(subject, ".M.") {
					objects++
				} else {
					uploads++
				}
			}
			return max(objects, uploads)
		},
	}
}

// repoint changes the sequence of a chunk in the meta message of a record.
func repoint(t *testing.T, js jetstream.JetStream, rec offload.Record, from, to uint64) {
	t.Helper()
	s := openTest(t, js, Config{})
	b, err := s.latestBlob(t.Context(), strings.TrimPrefix(rec.Digest, offload.DigestPrefix))
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.seqs {
		if b.seqs[i] == from {
			b.seqs[i] = to
		}
	}
	if b.seqs != nil {
		old := b.Metadata[metaChunks]
		b.data = []byte(strings.Replace(string(b.data), old, base64.StdEncoding.EncodeToString(appendRuns(nil, b.seqs)), 1))
	}
	if err := s.storeMeta(t.Context(), strings.TrimPrefix(rec.Digest, offload.DigestPrefix), b.data, b.seq); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) { storetest.Run(t, newHarness) }

func TestChunkRuns(t *testing.T) {
	for _, seqs := range [][]uint64{{1}, {5, 6, 7}, {1, 3, 4, 900, 901, 1 << 40}} {
		b := appendRuns(nil, seqs)
		got, err := decodeRuns(b, len(seqs))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(seqs) {
			t.Errorf("%v, %v; want %v", got, err, seqs)
		}
		for _, want := range []int{0, len(seqs) - 1, len(seqs) + 1} {
			if got, err := decodeRuns(b, want); err == nil {
				t.Errorf("%d of %v decoded as %v", want, seqs, got)
			}
		}
	}
}

func FuzzChunkRuns(f *testing.F) {
	f.Add(appendRuns(nil, []uint64{1, 2, 9}), 3)
	f.Fuzz(func(t *testing.T, b []byte, want int) {
		if want < 0 || want > 1000 {
			return
		}
		if seqs, err := decodeRuns(b, want); err == nil {
			for i := 1; i < len(seqs); i++ {
				if seqs[i] <= seqs[i-1] {
					t.Fatalf("not ascending: %v", seqs)
				}
			}
		}
	})
}

// FuzzDecodeBlob: no meta message makes decodeBlob panic, and the blobs that it returns
// are consistent.
func FuzzDecodeBlob(f *testing.F) {
	s := &Store{bucket: "b"}
	for size, seqs := range map[int][]uint64{0: nil, 10: {7}, 3*index.BlockSize + 1: {3, 4, 5, 9}} {
		x, digest := indexOf(storetest.Text(size, 1))
		data, err := s.encodeBlob(&record.Ingested{Index: x, Digest: digest}, "nuid", seqs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBlob(jsapi.Message{Data: data}, nil)
		if err != nil || b.index == nil {
			return
		}
		if b.index.Blocks() != int(b.Chunks) || b.seqs != nil && len(b.seqs) != int(b.Chunks) {
			t.Fatalf("%d blocks, %d chunks, %d sequences", b.index.Blocks(), b.Chunks, len(b.seqs))
		}
	})
}

func indexOf(data []byte) (*index.Index, string) {
	w := index.NewIndexer()
	for block := range slices.Chunk(data, index.BlockSize) {
		w.Block(block)
	}
	return w.Finish()
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
