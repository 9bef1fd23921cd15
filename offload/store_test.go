package offload

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
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/tools"
)

// harness is a kind of store under test: what all of them must do is in
// testStore, and this is how to get at what only one kind has.
type harness struct {
	// open opens a store on the same bytes each time it is called.
	open func(t *testing.T, cfg StoreConfig) Store
	// corrupt changes a stored byte of block i; nil if that cannot be.
	corrupt func(t *testing.T, rec Record, i int)
	// lose removes a stored block.
	lose func(t *testing.T, rec Record, i int)
	// stored counts the contents that are kept, whole or in part.
	stored func(t *testing.T) int
	// forgets says that a store opened again is empty.
	forgets bool
}

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// testStore is the conformance suite.
func testStore(t *testing.T, newHarness func(t *testing.T) harness) {
	for name, test := range map[string]func(*testing.T, harness){
		"RoundTrip":            testRoundTrip,
		"Record":               testRecord,
		"Summarize":            testSummarize,
		"PutAgain":             testPutAgain,
		"SameContentOnce":      testSameContentOnce,
		"SessionsApart":        testSessionsApart,
		"ConcurrentSame":       testConcurrentSame,
		"ConcurrentOther":      testConcurrentOther,
		"ConcurrentReads":      testConcurrentReads,
		"ShortReads":           testShortReads,
		"FailingSource":        testFailingSource,
		"Cancelled":            testCancelled,
		"Expiry":               testExpiry,
		"RefreshOnRead":        testRefreshOnRead,
		"PutOverExpired":       testPutOverExpired,
		"List":                 testList,
		"Delete":               testDelete,
		"Quota":                testQuota,
		"SweepSparesTheYoung":  testSweepSparesTheYoung,
		"SweepSparesTheShared": testSweepSparesTheShared,
		"SweepRace":            testSweepRace,
		"Reopen":               testReopen,
		"CorruptBlock":         testCorruptBlock,
		"LostBlock":            testLostBlock,
		"BadKeys":              testBadKeys,
		"Verify":               testVerify,
	} {
		t.Run(name, func(t *testing.T) { test(t, newHarness(t)) })
	}
}

func rec(session, id string) Record {
	return Record{Session: session, Artifact: tools.Artifact{ID: id, Type: "TEXT"}, Metadata: map[string]string{"biz_id": id}}
}

// content makes size bytes of text that are hard to compress and easy to check.
func content(size int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(size)))
	b := make([]byte, size)
	for i := range b {
		if b[i] = "abcdefghijklmnopqrstuvwxyz \n"[r.IntN(28)]; r.IntN(500) == 0 {
			b[i] = byte(r.IntN(256))
		}
	}
	return b
}

func mustPut(t *testing.T, s Store, r Record, data []byte) Record {
	t.Helper()
	out, err := s.Put(t.Context(), r, bytes.NewReader(data), nil)
	if err != nil {
		t.Fatalf("put %s/%s of %d bytes: %v", r.Session, r.ID, len(data), err)
	}
	return out
}

func mustRead(t *testing.T, s Store, r Record, want []byte) {
	t.Helper()
	if got, err := readAll(t.Context(), s, r); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %s/%s: %d bytes, %v; want the %d that were put", r.Session, r.ID, len(got), err, len(want))
	}
}

func readAll(ctx context.Context, s Store, r Record) ([]byte, error) {
	c, err := s.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
}

func testRoundTrip(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	const B = index.BlockSize
	for i, size := range []int{0, 1, 10, B - 1, B, B + 1, 2*B - 1, 2 * B, 4 * B, 4*B + 1, 5*B - 1, 5 * B, 9*B + 17, 40*B + 3} {
		data := content(size, 1)
		out := mustPut(t, s, rec("s", fmt.Sprint("r", i)), data)
		mustRead(t, s, out, data)
		c, err := s.Open(t.Context(), out)
		if err != nil {
			t.Fatal(err)
		}
		if c.Size() != int64(size) || c.Index().Size() != int64(size) || c.Index().Lines() != out.Lines {
			t.Errorf("%d bytes: content says %d bytes, %d lines", size, c.Size(), c.Index().Lines())
		}
		for range 50 {
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

func testRecord(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{TTL: time.Hour})
	data := []byte("zwei Wörter\nund\xff\n")
	r := rec("sess", "call_1")
	r.Summary, r.Truncated = "sum", true
	r.Metadata = map[string]string{"biz_id": "call 1 \" é", "tool_name": "shell", "empty": ""}
	before := time.Now().Add(-time.Second)
	out := mustPut(t, s, r, data)
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
	if fmt.Sprint(out) != fmt.Sprint(want) {
		t.Errorf("put returned\n%+v, want\n%+v", out, want)
	}
	if out.CreatedAt.Before(before) || out.CreatedAt.After(time.Now().Add(time.Second)) {
		t.Errorf("created at %v", out.CreatedAt)
	}
	if _, err := s.Get(t.Context(), "sess", "other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("get of nothing: %v, want ErrNotFound", err)
	}
}

func testSummarize(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	for i, size := range []int{0, 10, 3 * index.BlockSize, 30*index.BlockSize + 5} {
		data := content(size, 2)
		calls := 0
		out, err := s.Put(t.Context(), rec("s", fmt.Sprint("a", i)), bytes.NewReader(data), func(r *Record, c Content) error {
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
	_, err := s.Put(t.Context(), rec("s", "bad"), strings.NewReader("x"), func(*Record, Content) error { return boom })
	if !errors.Is(err, boom) {
		t.Errorf("%v, want boom", err)
	}
	if _, err := s.Get(t.Context(), "s", "bad"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a failed summary left a record: %v", err)
	}
}

func testPutAgain(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	for _, size := range []int{0, 5, 9 * index.BlockSize} {
		id := fmt.Sprint("n", size)
		data := content(size, 3)
		first := mustPut(t, s, rec("s", id), data)
		other := rec("s", id)
		other.Summary = "not this"
		if again := mustPut(t, s, other, data); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("again\n%+v, want the first\n%+v", again, first)
		}
		if _, err := s.Put(t.Context(), rec("s", id), strings.NewReader("other content"), nil); !errors.Is(err, ErrExists) {
			t.Errorf("another content: %v, want ErrExists", err)
		}
		mustRead(t, s, first, data)
	}
}

func testSameContentOnce(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	for _, size := range []int{100, 9 * index.BlockSize} {
		before := h.stored(t)
		data := content(size, 4)
		for i := range 4 {
			out := mustPut(t, s, rec(fmt.Sprint("s", i%2), fmt.Sprintf("%d-%d", size, i)), data)
			mustRead(t, s, out, data)
		}
		if got := h.stored(t) - before; got != 1 {
			t.Errorf("%d bytes put four times are stored %d times", size, got)
		}
	}
}

func testSessionsApart(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	a := mustPut(t, s, rec("one", "id"), []byte("a"))
	b := mustPut(t, s, rec("two", "id"), []byte("b"))
	mustRead(t, s, a, []byte("a"))
	mustRead(t, s, b, []byte("b"))
	upper := mustPut(t, s, rec("one", "ID"), []byte("c"))
	mustRead(t, s, upper, []byte("c"))
	mustRead(t, s, a, []byte("a"))
	if _, err := s.Get(t.Context(), "three", "id"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another session's: %v, want ErrNotFound", err)
	}
}

func testShortReads(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	data := content(3*index.BlockSize+11, 8)
	for name, src := range map[string]io.Reader{
		"half":     iotest.HalfReader(bytes.NewReader(data)),
		"one":      iotest.OneByteReader(bytes.NewReader(data)),
		"data-err": iotest.DataErrReader(bytes.NewReader(data)),
	} {
		out, err := s.Put(t.Context(), rec("s", name), src, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mustRead(t, s, out, data)
	}
	if got := h.stored(t); got != 1 {
		t.Errorf("stored %d times", got)
	}
	if _, err := s.Put(t.Context(), rec("s", "idle"), idleReader{}, nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v, want ErrNoProgress", err)
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func testFailingSource(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	boom := errors.New("boom")
	for _, size := range []int{0, 10, index.BlockSize, 9*index.BlockSize + 1} {
		before := h.stored(t)
		src := io.MultiReader(bytes.NewReader(content(size, 9)), iotest.ErrReader(boom))
		if _, err := s.Put(t.Context(), rec("s", "a"), src, nil); !errors.Is(err, boom) {
			t.Errorf("after %d bytes: %v, want boom", size, err)
		}
		if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, ErrNotFound) {
			t.Errorf("after %d bytes: a record is left: %v", size, err)
		}
		if got := h.stored(t) - before; got != 0 {
			t.Errorf("after %d bytes: %d contents are left", size, got)
		}
	}
}

func testCancelled(t *testing.T, h harness) {
	s := h.open(t, StoreConfig{})
	for _, blocks := range []int{0, 1, 9} {
		ctx, cancel := context.WithCancel(t.Context())
		src := io.MultiReader(bytes.NewReader(content(blocks*index.BlockSize, 10)), readFunc(func(p []byte) (int, error) {
			cancel()
			return len(p), nil
		}))
		if _, err := s.Put(ctx, rec("s", "a"), src, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d blocks: %v, want Canceled", blocks, err)
		}
		if got := h.stored(t); got != 0 {
			t.Errorf("after %d blocks: %d contents are left", blocks, got)
		}
	}
	if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a record is left: %v", err)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
