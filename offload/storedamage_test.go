package offload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload/index"
)

func testReopen(t *testing.T, h harness) {
	if h.forgets {
		t.Skip("this store is gone with its process")
	}
	data := content(5*index.BlockSize, 17)
	out := mustPut(t, h.open(t, StoreConfig{}), rec("s", "a"), data)
	s := h.open(t, StoreConfig{})
	got, err := s.Get(t.Context(), "s", "a")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(out) {
		t.Fatalf("get: %+v, %v; want %+v", got, err, out)
	}
	mustRead(t, s, got, data)
}

func testCorruptBlock(t *testing.T, h harness) {
	if h.corrupt == nil {
		t.Skip("the bytes of this store cannot be reached")
	}
	for _, blocks := range []int{1, 3, 20} {
		s := h.open(t, StoreConfig{})
		data := content(blocks*index.BlockSize-100, 18)
		out := mustPut(t, s, rec("s", fmt.Sprint("a", blocks)), data)
		h.corrupt(t, out, blocks-1)
		if got, err := readAll(t.Context(), s, out); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d blocks: read %d bytes, %v; want ErrCorrupt", blocks, len(got), err)
		}
		if blocks == 1 {
			continue
		}
		c, err := s.Open(t.Context(), out)
		if err != nil {
			continue // found at once
		}
		defer c.Close()
		buf := make([]byte, 10)
		if _, err := c.ReadAt(buf, 0); err != nil && !errors.Is(err, ErrCorrupt) || err == nil && !bytes.Equal(buf, data[:10]) {
			t.Errorf("%d blocks: another block: %q, %v", blocks, buf, err)
		}
		if _, err := c.ReadAt(buf, int64(blocks-1)*index.BlockSize+50); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d blocks: the corrupt block: %v, want ErrCorrupt", blocks, err)
		}
	}
}

func testLostBlock(t *testing.T, h harness) {
	if h.lose == nil {
		t.Skip("the bytes of this store cannot be reached")
	}
	for _, blocks := range []int{1, 3, 20} {
		s := h.open(t, StoreConfig{})
		data := content(blocks*index.BlockSize-100, 19)
		out := mustPut(t, s, rec("s", fmt.Sprint("a", blocks)), data)
		h.lose(t, out, blocks-1)
		if got, err := readAll(t.Context(), s, out); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d blocks: read %d bytes, %v; want ErrCorrupt", blocks, len(got), err)
		}
		// Whoever puts it again heals it.
		again := mustPut(t, s, rec("s", out.ID), data)
		mustRead(t, s, again, data)
	}
}

func testBadKeys(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	for _, bad := range []string{"", "..", "a/b", "a.b", "*", ">", "-a", "a b", "\x00", strings.Repeat("x", 65)} {
		if _, err := s.Put(t.Context(), rec("s", bad), strings.NewReader("x"), nil); err == nil {
			t.Errorf("put of id %q was accepted", bad)
		}
		if _, err := s.Put(t.Context(), rec(bad, "a"), strings.NewReader("x"), nil); err == nil {
			t.Errorf("put in session %q was accepted", bad)
		}
		if _, err := s.Get(t.Context(), "s", bad); !errors.Is(err, ErrNotFound) {
			t.Errorf("get of id %q: %v, want ErrNotFound", bad, err)
		}
		if err := s.Delete(t.Context(), bad, "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("delete in session %q: %v, want ErrNotFound", bad, err)
		}
		if bad == "" {
			continue // means all
		}
		for _, err := range s.List(t.Context(), bad) {
			if err == nil {
				t.Errorf("list of session %q yields a record", bad)
			}
		}
	}
	if got := h.stored(t); got != 0 {
		t.Errorf("%d contents are stored", got)
	}
}

func testVerify(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	data := content(7*index.BlockSize+1, 20)
	out := mustPut(t, s, rec("s", "a"), data)
	c, err := s.Open(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b bytes.Buffer
	if err := Copy(&b, c, out.Digest); err != nil || !bytes.Equal(b.Bytes(), data) {
		t.Errorf("copy: %d bytes, %v", b.Len(), err)
	}
	if err := Copy(io.Discard, c, "sha256:"+strings.Repeat("0", 64)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("copy with another digest: %v, want ErrCorrupt", err)
	}
}
