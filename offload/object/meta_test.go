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

// TestOthersWriteDuringPut: the chunks of an object get other sequences than the
// predicted ones.
func TestOthersWriteDuringPut(t *testing.T) {
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

// TestPutEndsAfterMeta: a process ends after it published the meta message, before
// the chunks are acknowledged. It leaves a complete object or none.
func TestPutEndsAfterMeta(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	const blocks = smallChunks + 5
	for _, c := range []struct {
		blocks, other int
		taken         bool
	}{{3, -1, true}, {3, 2, true}, {blocks, -1, true}, {blocks, 1, false}, {blocks, blocks - 1, false}, {blocks, blocks, false}} {
		data := storetest.Text(c.blocks*index.BlockSize, uint64(200+c.other))
		up, in := sentUpload(t, s, interrupted(data, func(block int) {
			if block == c.other {
				otherWrites(t, s)
			}
		}))
		if _, _, err := up.publishMetaEarly(in); err != nil {
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

// TestMetaBeforeAnyAnswer: the predicted sequences follow the last known sequence, so
// the upload does not wait for an acknowledgement first.
func TestMetaBeforeAnyAnswer(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	for i := range 3 {
		data := storetest.Text((smallChunks+2)*index.BlockSize, uint64(290+i))
		up, in := sentUpload(t, s, bytes.NewReader(data))
		meta, predicted, err := up.publishMetaEarly(in)
		if err != nil || len(up.seqs) != 0 {
			t.Fatalf("%v, waited for %d chunks", err, len(up.seqs))
		}
		if err := up.awaitAll(t.Context()); err != nil || !slices.Equal(predicted, up.seqs) {
			t.Errorf("%v, predicted %d, got %d", err, predicted, up.seqs)
		}
		if _, _, err := s.await(t.Context(), meta); err != nil {
			t.Error(err)
		}
		storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"+strings.Repeat("b", i)), data), data)
		if n := chunkUsers(t, s, up.nuid); n != 1 {
			t.Errorf("%d objects have the chunks", n)
		}
	}
}

// TestPredictedByAccident: the stream has the predicted last sequence, but the chunks
// have other sequences, as after the bucket was created again.
func TestPredictedByAccident(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	const blocks = smallChunks + 2
	data := storetest.Text(blocks*index.BlockSize, 295)
	s.observeSeq(3)
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

// TestRejectedChunk: the server rejects the last chunk, and a message of another client
// gets its predicted sequence. The upload retracts the meta message.
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

// TestFailedPutKeepsObjectOfAnother: a Put fails although everything was stored, and
// another Put uses its object.
func TestFailedPutKeepsObjectOfAnother(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	for i, blocks := range []int{2, smallChunks + 5} {
		data := storetest.Text(blocks*index.BlockSize, uint64(310+i))
		up, in := sentUpload(t, s, bytes.NewReader(data))
		f, _, err := up.publishMetaEarly(in)
		if err != nil {
			t.Fatal(err)
		}
		out := storetest.Put(t, s, storetest.NewRecord("s", strings.Repeat("a", blocks)), data)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := up.awaitAll(ended); !errors.Is(err, context.Canceled) && err != nil {
			t.Fatal(err)
		}
		up.retract(ended, f)
		storetest.CheckContent(t, openTest(t, js, Config{}), out, data)
		if s.noPurge.Load() {
			t.Error("the store stopped tidying")
		}
	}
}
