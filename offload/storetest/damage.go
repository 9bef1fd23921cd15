package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
)

func testReopen(t *testing.T, h Harness) {
	if h.Volatile {
		t.Skip("the store is volatile")
	}
	data := Text(5*index.BlockSize, 17)
	out := Put(t, h.Open(t, offload.StoreConfig{}), NewRecord("s", "a"), data)
	s := h.Open(t, offload.StoreConfig{})
	got, err := s.Get(t.Context(), "s", "a")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(out) {
		t.Fatalf("get: %+v, %v; want %+v", got, err, out)
	}
	CheckContent(t, s, got, data)
}

// testDamage: damaged bytes are an error, and the next Put of a content repairs lost ones.
func testDamage(t *testing.T, h Harness) {
	if h.Corrupt == nil || h.Lose == nil {
		t.Skip("the harness cannot change stored bytes")
	}
	for _, blocks := range []int{1, 3, 20} {
		s, last := h.Open(t, offload.StoreConfig{}), blocks-1
		data := Text(blocks*index.BlockSize-100, 18)
		out := Put(t, s, NewRecord("s", fmt.Sprint("a", blocks)), data)
		h.Lose(t, out, last)
		if got, err := ReadAll(t.Context(), s, out); !errors.Is(err, offload.ErrCorrupt) {
			t.Errorf("%d blocks, one lost: read %d bytes, %v; want ErrCorrupt", blocks, len(got), err)
		}
		CheckContent(t, s, Put(t, s, NewRecord("s", out.ID), data), data)
		h.Corrupt(t, out, last)
		s = h.Open(t, offload.StoreConfig{}) // the first one may have the block in memory
		if got, err := ReadAll(t.Context(), s, out); !errors.Is(err, offload.ErrCorrupt) {
			t.Errorf("%d blocks, one corrupt: read %d bytes, %v; want ErrCorrupt", blocks, len(got), err)
		}
		c, err := s.Open(t.Context(), out)
		if err != nil {
			continue // Open reported it
		}
		defer c.Close()
		buf := make([]byte, 10)
		if _, err := c.ReadAt(buf, 0); err != nil && !errors.Is(err, offload.ErrCorrupt) || err == nil && !bytes.Equal(buf, data[:10]) {
			t.Errorf("%d blocks: another block: %q, %v", blocks, buf, err)
		}
		if _, err := c.ReadAt(buf, int64(last)*index.BlockSize+50); !errors.Is(err, offload.ErrCorrupt) {
			t.Errorf("%d blocks: the corrupt block: %v, want ErrCorrupt", blocks, err)
		}
	}
}

func testBadKeys(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	for _, bad := range []string{"", "..", "a/b", "a.b", "*", ">", "-a", "a b", "\x00", strings.Repeat("x", 65)} {
		if _, err := s.Put(t.Context(), NewRecord("s", bad), strings.NewReader("x"), nil); err == nil {
			t.Errorf("put of id %q was accepted", bad)
		}
		if _, err := s.Put(t.Context(), NewRecord(bad, "a"), strings.NewReader("x"), nil); err == nil {
			t.Errorf("put in session %q was accepted", bad)
		}
		if _, err := s.Get(t.Context(), "s", bad); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("get of id %q: %v, want ErrNotFound", bad, err)
		}
		if err := s.Delete(t.Context(), bad, "a"); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("delete in session %q: %v, want ErrNotFound", bad, err)
		}
		if bad == "" {
			continue // List of all sessions
		}
		for _, err := range s.List(t.Context(), bad) {
			if err == nil {
				t.Errorf("list of session %q yields a record", bad)
			}
		}
	}
	h.checkStored(t, 0, 0, "after bad keys")
}
