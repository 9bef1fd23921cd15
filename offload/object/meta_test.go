package object

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// otherWrites stores a chunk of another client.
func otherWrites(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.publisher.Publish(t.Context(), s.chunkSubject("other"), []byte("x")); err != nil {
		t.Fatal(err)
	}
}

// interrupted returns a reader of data that calls f before each block, and once after
// the last block.
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
	up := s.newUpload(0)
	t.Cleanup(up.close)
	return up
}

// sentUpload returns an upload that has sent all chunks.
func sentUpload(t *testing.T, s *Store, src io.Reader) (*upload, *record.Ingested) {
	t.Helper()
	up := newTestUpload(t, s)
	in, err := record.Ingest(t.Context(), src, func(block []byte) error { return up.send(t.Context(), block) })
	if err != nil {
		t.Fatal(err)
	}
	return up, in
}

// chunksOf counts the stored chunks of an upload, or of all uploads (">").
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

// TestOthersWriteDuringPut: the sequences of the chunks of an object are not consecutive.
func TestOthersWriteDuringPut(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	const blocks = smallChunks + 5
	for at := -1; at <= blocks; at++ { // -1: before each block
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

// TestPutEndsAfterMeta: a process ends after it published the meta message of a small
// object, before the chunks are acknowledged. It leaves a complete object.
func TestPutEndsAfterMeta(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	for _, other := range []int{-1, 2} {
		data := storetest.Text(3*index.BlockSize, uint64(200+other))
		up, in := sentUpload(t, s, interrupted(data, func(block int) {
			if block == other {
				otherWrites(t, s)
			}
		}))
		if _, err := up.sendMeta(in, 0); err != nil {
			t.Fatal(err)
		}
		out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
		if n := chunkUsers(t, s, up.nuid); n != 1 {
			t.Errorf("%d objects have the chunks, want 1", n)
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

// TestRejectedChunk: the server rejects the last chunk of a large object. The upload leaves
// nothing.
func TestRejectedChunk(t *testing.T) {
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

// TestRejectedChunkOfSmallObject: the server rejects a chunk and stores the meta message,
// which was sent before the answer. The upload leaves nothing.
func TestRejectedChunkOfSmallObject(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	data := storetest.Text(2*index.BlockSize, 310)
	up := newTestUpload(t, s)
	in, err := record.Ingest(t.Context(), bytes.NewReader(data), func(block []byte) error {
		m := &nats.Msg{Subject: s.chunkSubject(up.nuid), Data: block, Header: nats.Header{}}
		if up.sent == 1 {
			m.Header.Set(jetstream.ExpectedLastSeqHeader, "99999")
		}
		return up.publish(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := up.commit(t.Context(), in); err == nil {
		t.Error("a chunk is missing, and the Put succeeded")
	}
	if n := uint64(chunkUsers(t, s, up.nuid)) + chunksOf(t, s, up.nuid); n != 0 {
		t.Errorf("%d objects and chunks are left", n)
	}
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
}

// TestFailedPutKeepsObjectOfAnother: a Put of a small object fails although everything was
// stored, and another Put uses its object.
func TestFailedPutKeepsObjectOfAnother(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	data := storetest.Text(2*index.BlockSize, 311)
	up, in := sentUpload(t, s, bytes.NewReader(data))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	early, err := up.sendMeta(in, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	if err := up.awaitAll(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := up.retract(t.Context(), early); err == nil {
		t.Error("the object of another Put was removed")
	}
	storetest.CheckContent(t, openTest(t, js, Config{}), out, data)
}
