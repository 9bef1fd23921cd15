package object

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// otherWrites stores a chunk of somebody else.
func otherWrites(t *testing.T, s *Store) {
	t.Helper()
	m, err := s.api.nc.RequestWithContext(t.Context(), s.chunkSubject("other"), []byte("x"))
	if err == nil {
		_, err = readAck(m)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// interrupted reads data by blocks and calls f before each; f is called once more
// when all blocks are on their way.
func interrupted(data []byte, f func(block int)) io.Reader {
	r, block := bytes.NewReader(data), 0
	return readFunc(func(p []byte) (int, error) {
		f(block)
		block++
		return r.Read(p)
	})
}

func newTestUpload(t *testing.T, s *Store) *upload {
	t.Helper()
	up, err := s.newUpload(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { up.close() })
	return up
}

// underWay is an upload all of whose chunks were sent.
func underWay(t *testing.T, s *Store, src io.Reader) (*upload, *record.Ingested) {
	t.Helper()
	up := newTestUpload(t, s)
	in, err := record.Ingest(t.Context(), src, func(block []byte) error { return up.send(t.Context(), block) })
	if err != nil {
		t.Fatal(err)
	}
	return up, in
}

// chunksOf counts the chunks of an upload, or of all (">"), that are stored.
func chunksOf(t *testing.T, s *Store, nuid string) (n uint64) {
	t.Helper()
	info, err := s.blobs.Info(t.Context(), jetstream.WithSubjectFilter(s.chunkSubject(nuid)))
	if err != nil {
		t.Fatal(err)
	}
	for _, chunks := range info.State.Subjects {
		n += chunks
	}
	return n
}

// chunkUsers counts the objects that have the chunks of an upload.
func chunkUsers(t *testing.T, s *Store, nuid string) (n int) {
	t.Helper()
	objects, err := s.objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.NUID == nuid {
			n++
		}
	}
	return n
}

// TestOthersWriteDuringPut: the chunks of an object get other sequences than
// were foreseen.
func TestOthersWriteDuringPut(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	const blocks = smallChunks + 5
	for at := -1; at <= blocks; at++ { // -1: before each
		data := storetest.Text(blocks*index.BlockSize, uint64(100+at))
		src := interrupted(data, func(block int) {
			if block == at || at < 0 {
				otherWrites(t, s)
			}
		})
		out, err := s.Put(t.Context(), storetest.NewRecord("s", "a"+strings.Repeat("b", at+1)), src, nil)
		if err != nil {
			t.Fatalf("another wrote before block %d: %v", at, err)
		}
		storetest.CheckContent(t, openTest(t, js, Config{}), out, data)
	}
}

// TestPutEndsAfterNaming: a process that ends when it has named an object, and
// knows of no chunk but the first whether it is stored, leaves an object that the
// next Put may take, or none.
func TestPutEndsAfterNaming(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	const blocks = smallChunks + 5
	for _, c := range []struct {
		blocks, other int
		taken         bool
	}{{3, -1, true}, {3, 2, true}, {blocks, -1, true}, {blocks, 1, false}, {blocks, blocks - 1, false}, {blocks, blocks, false}} {
		data := storetest.Text(c.blocks*index.BlockSize, uint64(200+c.other))
		up, in := underWay(t, s, interrupted(data, func(block int) {
			if block == c.other {
				otherWrites(t, s)
			}
		}))
		if _, _, err := up.nameAhead(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
		if taken := chunkUsers(t, s, up.nuid) == 1; taken != c.taken {
			t.Errorf("%d blocks, another wrote before block %d: the object is taken: %t, want %t", c.blocks, c.other, taken, c.taken)
		}
		storetest.CheckContent(t, openTest(t, js, Config{}), out, data)
		if err := s.Delete(t.Context(), "s", "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sweep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if left := chunksOf(t, s, ">"); left != 0 {
			t.Errorf("%d chunks are left", left)
		}
	}
}

// TestNameBeforeAnyAnswer: the sequences follow the last one known, so no round
// trip has to be waited for.
func TestNameBeforeAnyAnswer(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	for i := range 3 {
		data := storetest.Text((smallChunks+2)*index.BlockSize, uint64(290+i))
		up, in := underWay(t, s, bytes.NewReader(data))
		name, foreseen, err := up.nameAhead(t.Context(), in)
		if err != nil || len(up.seqs) != 0 {
			t.Fatalf("%v, waited for %d chunks", err, len(up.seqs))
		}
		if err := up.awaitAll(t.Context()); err != nil || !slices.Equal(foreseen, up.seqs) {
			t.Errorf("%v, foreseen %d, got %d", err, foreseen, up.seqs)
		}
		if _, err := up.awaitName(t.Context(), name); err != nil {
			t.Error(err)
		}
		storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"+strings.Repeat("b", i)), data), data)
		if n := chunkUsers(t, s, up.nuid); n != 1 {
			t.Errorf("%d objects have the chunks", n)
		}
	}
}

// TestForeseenByAccident: the stream ends where it was foreseen, but the chunks are
// not there, as when somebody makes the bucket anew.
func TestForeseenByAccident(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	const blocks = smallChunks + 2
	data := storetest.Text(blocks*index.BlockSize, 295)
	s.link.saw(3)
	src := interrupted(data, func(block int) {
		for range 3 {
			if block == blocks {
				otherWrites(t, s)
			}
		}
	})
	out, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), src, nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.CheckContent(t, openTest(t, js, Config{}), out, data)
}

// TestRefusedChunk: the server refuses the last chunk, and another's message
// takes the place that was foreseen for it. The name is taken back.
func TestRefusedChunk(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	const blocks = smallChunks + 5
	data := storetest.Text(blocks*index.BlockSize, 300)
	up := newTestUpload(t, s)
	in, err := record.Ingest(t.Context(), bytes.NewReader(data), func(block []byte) error {
		if up.sent < blocks-1 {
			return up.send(t.Context(), block)
		}
		m := &nats.Msg{Subject: s.chunkSubject(up.nuid), Data: block, Header: nats.Header{}}
		m.Header.Set(jetstream.ExpectedLastSeqHeader, "99999")
		return up.publish(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	otherWrites(t, s)
	if err := up.commit(t.Context(), in); err == nil {
		t.Error("a chunk is missing, and the Put succeeded")
	}
	if n := chunkUsers(t, s, up.nuid); n != 0 {
		t.Error("the object has a name")
	}
	if n := chunksOf(t, s, up.nuid); n != 0 {
		t.Errorf("%d chunks are left", n)
	}
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
}

// TestFailedPutSparesWhatAnotherFound: a Put fails although all was stored, and
// another has found its object by then.
func TestFailedPutSparesWhatAnotherFound(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	for i, blocks := range []int{2, smallChunks + 5} {
		data := storetest.Text(blocks*index.BlockSize, uint64(310+i))
		up, in := underWay(t, s, bytes.NewReader(data))
		f, _, err := up.nameAhead(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		out := storetest.Put(t, s, storetest.NewRecord("s", strings.Repeat("a", blocks)), data)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := up.awaitAll(ended); !errors.Is(err, context.Canceled) && err != nil {
			t.Fatal(err)
		}
		up.unname(ended, f)
		storetest.CheckContent(t, openTest(t, js, Config{}), out, data)
		if s.noPurge.Load() {
			t.Error("the store does not tidy up any more")
		}
	}
}
