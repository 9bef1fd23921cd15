package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
)

func testRoundTrip(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	const B = index.BlockSize
	sizes, reads := []int{0, 1, 10, B - 1, B, B + 1, 2*B - 1, 2 * B, 4 * B, 4*B + 1, 5*B - 1, 5 * B, 9*B + 17, 40*B + 3}, 50
	if testing.Short() { // the race detector makes it ten times slower
		sizes, reads = []int{0, 1, B, B + 1, 4*B + 1}, 10
	}
	for i, size := range sizes {
		data := Text(size, 1)
		out := Put(t, s, NewRecord("s", fmt.Sprint("r", i)), data)
		CheckContent(t, s, out, data)
		c, err := s.Open(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		if c.Size() != int64(size) || c.Index().Size() != int64(size) || c.Index().Lines() != out.Lines {
			t.Errorf("%d bytes: content says %d bytes, %d lines", size, c.Size(), c.Index().Lines())
		}
		for range reads {
			off, n := rand.IntN(size+2), 1+rand.IntN(3*B)
			buf := make([]byte, n)
			got, err := c.ReadAt(buf, int64(off))
			want := data[min(off, size):min(off+n, size)]
			if !bytes.Equal(buf[:got], want) {
				t.Fatalf("%d bytes: ReadAt(%d, %d) gave %d other bytes, %v", size, n, off, got, err)
			}
			if wantEOF := off+n > size; wantEOF != (err == io.EOF) || !wantEOF && err != nil {
				t.Fatalf("%d bytes: ReadAt(%d, %d): %v", size, n, off, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func testRecord(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{TTL: time.Hour})
	data := []byte("zwei Wörter\nund\xff\n")
	r := NewRecord("sess", "call_1")
	r.Summary, r.Truncated = "sum", true
	r.Metadata = map[string]string{"biz_id": "call 1 \" é", "tool_name": "shell", "empty": ""}
	before := time.Now().Add(-time.Second)
	out := Put(t, s, r, data)
	got, err := s.Get(t.Context(), "sess", "call_1")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(out) {
		t.Errorf("get\n%+v, put returned\n%+v", got, out)
	}
	sum := sha256.Sum256(data)
	want := r
	want.Size, want.Chars, want.Lines, want.Tokens = int64(len(data)), 17, 3, 7
	want.Digest = "sha256:" + hex.EncodeToString(sum[:])
	want.CreatedAt, want.ExpiresAt = out.CreatedAt, out.CreatedAt.Add(time.Hour)
	want.IndexDigest = out.IndexDigest // some stores set it
	if fmt.Sprint(out) != fmt.Sprint(want) {
		t.Errorf("put returned\n%+v, want\n%+v", out, want)
	}
	if out.CreatedAt.Before(before) || out.CreatedAt.After(time.Now().Add(time.Second)) {
		t.Errorf("created at %v", out.CreatedAt)
	}
	checkGet(t, s, "sess", "other", offload.ErrNotFound)
}

func testSummarize(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	for i, size := range []int{0, 10, 3 * index.BlockSize, 30*index.BlockSize + 5} {
		data := Text(size, 2)
		calls := 0
		out, err := s.Put(t.Context(), NewRecord("s", fmt.Sprint("a", i)), bytes.NewReader(data), func(r *offload.Record, c offload.Content) error {
			calls++
			got, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes: summarize saw %d other bytes, %v", size, len(got), err)
			}
			if r.Size != int64(size) || r.Digest == "" || c.Index().Lines() != r.Lines {
				t.Errorf("%d bytes: summarize saw %+v", size, *r)
			}
			r.Summary, r.Type, r.MediaType = "mine", "JSON", "application/json"
			return nil
		})
		if err != nil || calls != 1 {
			t.Fatalf("%d bytes: %v, summarize was called %d times", size, err, calls)
		}
		got, err := s.Get(t.Context(), "s", out.ID)
		if err != nil || got.Summary != "mine" || got.Type != "JSON" || got.MediaType != "application/json" {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
	}
	boom := errors.New("boom")
	_, err := s.Put(t.Context(), NewRecord("s", "bad"), strings.NewReader("x"), func(*offload.Record, offload.Content) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("%v, want boom", err)
	}
	checkGet(t, s, "s", "bad", offload.ErrNotFound)
}

func testPutAgain(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	for _, size := range []int{0, 5, 9 * index.BlockSize} {
		id := fmt.Sprint("n", size)
		data := Text(size, 3)
		first := Put(t, s, NewRecord("s", id), data)
		other := NewRecord("s", id)
		other.Summary = "not this"
		if again := Put(t, s, other, data); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("again\n%+v, want the first\n%+v", again, first)
		}
		if _, err := s.Put(t.Context(), NewRecord("s", id), strings.NewReader("other content"), nil); !errors.Is(err, offload.ErrExists) {
			t.Errorf("another content: %v, want ErrExists", err)
		}
		CheckContent(t, s, first, data)
	}
}

func testSameContentOnce(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	for _, size := range []int{100, 9 * index.BlockSize} {
		before := h.stored(t)
		data := Text(size, 4)
		for i := range 4 {
			out := Put(t, s, NewRecord(fmt.Sprint("s", i%2), fmt.Sprintf("%d-%d", size, i)), data)
			CheckContent(t, s, out, data)
		}
		h.checkStored(t, before, 1, fmt.Sprintf("%d bytes, put four times", size))
	}
}

func testSessionsAreSeparate(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	a := Put(t, s, NewRecord("one", "id"), []byte("a"))
	b := Put(t, s, NewRecord("two", "id"), []byte("b"))
	CheckContent(t, s, a, []byte("a"))
	CheckContent(t, s, b, []byte("b"))
	upper := Put(t, s, NewRecord("one", "ID"), []byte("c"))
	CheckContent(t, s, upper, []byte("c"))
	CheckContent(t, s, a, []byte("a"))
	checkGet(t, s, "three", "id", offload.ErrNotFound)
}

// testFailedPut: a Put whose source fails, or whose context ends, leaves nothing.
func testFailedPut(t *testing.T, h Harness) {
	s := h.Open(t, offload.StoreConfig{})
	boom := errors.New("boom")
	for _, size := range []int{0, 10, index.BlockSize, 9*index.BlockSize + 1} {
		ctx, cancel := context.WithCancel(t.Context())
		ends := readFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
		for i, end := range []io.Reader{iotest.ErrReader(boom), ends} {
			before, want := h.stored(t), []error{boom, context.Canceled}[i]
			src := io.MultiReader(bytes.NewReader(Text(size, 9)), end)
			if _, err := s.Put(ctx, NewRecord("s", "a"), src, nil); !errors.Is(err, want) {
				t.Errorf("after %d bytes: %v, want %v", size, err, want)
			}
			checkGet(t, s, "s", "a", offload.ErrNotFound)
			h.checkStored(t, before, 0, fmt.Sprintf("after %d bytes", size))
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
