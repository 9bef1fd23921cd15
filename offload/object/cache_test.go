package object

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
	"github.com/stevedore-bus/stevedore/tools"
)

// TestOpenedContentIsNotLookedUpAgain: the second read of a content requests its record
// and new blocks only.
func TestOpenedContentIsNotLookedUpAgain(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	data := bytes.Repeat([]byte("a line of 32 bytes, more or less\n"), 20*index.BlockSize/33)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	r := offload.NewReader(s, offload.ReaderConfig{})
	for i, c := range []struct {
		line int64
		want uint64
	}{{1, 3}, {1, 1}, {out.Lines / 3, 2}, {out.Lines/2 - 1, 2}, {out.Lines / 2, 2}, {2, 1}} {
		before := js.Conn().Stats().OutMsgs
		if _, err := r.GetByLines(t.Context(), "s", "a", offload.LinesQuery{StartLine: c.line, EndLine: c.line}); err != nil {
			t.Fatal(err)
		}
		if got := js.Conn().Stats().OutMsgs - before; got != c.want {
			t.Errorf("reading %d, of line %d, took %d requests, want %d", i, c.line, got, c.want)
		}
	}
	// The cache does not bypass the record.
	if _, err := r.GetByLines(t.Context(), "other", "a", offload.LinesQuery{StartLine: 1, EndLine: 1}); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("another session: %v", err)
	}
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	if lines, err := r.GetByLines(t.Context(), "s", "a", offload.LinesQuery{StartLine: 1, EndLine: 1}); lines != nil || tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("after its deletion: %v, %v", lines, err)
	}
	if page, err := r.GetByID(t.Context(), "s", "a", 0, 10); page != nil || tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("after its deletion: %v, %v", page, err)
	}
	// The cache does not return the content of another artifact with this id.
	storetest.Put(t, s, storetest.NewRecord("s", "a"), []byte("one\ntwo"))
	if lines, err := r.GetByLines(t.Context(), "s", "a", offload.LinesQuery{StartLine: 1, EndLine: 9}); err != nil || lines.Content != "one\ntwo" {
		t.Errorf("after it was put anew: %v, %v", lines, err)
	}
}

// TestOpenedContentThatIsPutAgain: a content that was swept and put again has other
// chunks than the cached ones.
func TestOpenedContentThatIsPutAgain(t *testing.T) {
	t.Parallel()
	srv := startServer(t, server.Options{})
	ours, theirs := openTest(t, connect(t, srv), Config{}), openTest(t, connect(t, srv), Config{})
	for _, blocks := range []int{1, 3, 20} {
		data := storetest.Text(blocks*index.BlockSize-7, 40)
		out := storetest.Put(t, ours, storetest.NewRecord("s", fmt.Sprint("a", blocks)), data)
		open, err := ours.Open(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		if err := theirs.Delete(t.Context(), "s", out.ID); err != nil {
			t.Fatal(err)
		}
		if report, err := theirs.Sweep(t.Context(), 0); err != nil || report.Blobs != 1 {
			t.Fatal(report, err)
		}
		if got, err := storetest.ReadAll(t.Context(), ours, out); !errors.Is(err, offload.ErrCorrupt) {
			t.Errorf("%d blocks, swept: read %d bytes, %v; want ErrCorrupt", blocks, len(got), err)
		}
		storetest.CheckContent(t, theirs, storetest.Put(t, theirs, storetest.NewRecord("s", out.ID), data), data)
		storetest.CheckContent(t, ours, out, data)
		got := make([]byte, len(data))
		if _, err := open.ReadAt(got, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d blocks, opened before the sweep: %v", blocks, err)
		}
		if _, err := open.ReadAt(got[:10], int64(len(data)-10)); err != nil || !bytes.Equal(got[:10], data[len(data)-10:]) {
			t.Errorf("%d blocks, the end: %v", blocks, err)
		}
	}
}

// TestHugeIndexIsNotCached: the cache is bounded in bytes, too.
func TestHugeIndexIsNotCached(t *testing.T) {
	var s Store
	for _, blocks := range []int{maxCachedIndex, maxCachedIndex + 1} {
		if _, err := s.addToCache(fmt.Sprint(blocks), &blob{index: zeros(t, blocks)}, nil); err != nil {
			t.Fatal(err)
		}
		if _, cached := s.cache.Get(fmt.Sprint(blocks)); cached != (blocks == maxCachedIndex) {
			t.Errorf("the index of %d blocks is cached: %v", blocks, cached)
		}
	}
}

// zeros returns the index of a content of so many blocks.
func zeros(t *testing.T, blocks int) *index.Index {
	b := binary.AppendUvarint([]byte{1}, uint64(blocks)*index.BlockSize)
	b = append(b, make([]byte, 6*blocks)...)
	var x index.Index
	if err := x.UnmarshalBinary(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))); err != nil {
		t.Fatal(err)
	}
	return &x
}
