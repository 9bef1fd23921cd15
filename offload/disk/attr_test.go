package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// writeAllAttached writes each attached record to a file, as a sweep does.
func writeAllAttached(t *testing.T, s *Store) {
	t.Helper()
	if report, err := s.Sweep(t.Context(), time.Hour); err != nil || report != (offload.SweepReport{}) {
		t.Fatalf("sweep: %+v, %v; want nothing", report, err)
	}
}

// needAttrs skips a test if the file system has no extended attributes. The tests of
// record files cover that case.
func needAttrs(t *testing.T, dir string) {
	t.Helper()
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := setAttr(f, recordAttr, []byte("x")); err != nil {
		t.Skip("no extended attributes here: ", err)
	}
}

func sessionFiles(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestDiskAttached: a new content is one file with its record attached. All operations
// work without a record file.
func TestDiskAttached(t *testing.T) {
	dir := t.TempDir()
	needAttrs(t, dir)
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(2*index.BlockSize+5, 80)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	if got := sessionFiles(t, filepath.Join(dir, "s")); got != "a.md" {
		t.Fatalf("the session has %q, want a.md", got)
	}
	other := openTest(t, dir, offload.StoreConfig{}) // like another process
	got, err := other.Get(t.Context(), "s", "a")
	if err != nil || fmt.Sprint(got) != fmt.Sprint(out) {
		t.Errorf("got %+v, %v\nput %+v", got, err, out)
	}
	storetest.CheckContent(t, other, out, data)
	if n := countListed(t, other, "s") + countListed(t, other, ""); n != 2 {
		t.Errorf("listed %d times, want once for the session and once for all", n)
	}
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Error(err)
	}
	if _, err := other.Get(t.Context(), "s", "a"); !errors.Is(err, offload.ErrNotFound) {
		t.Errorf("after delete: %v", err)
	}
}

// TestDiskAttachedShared: the contents of several ids are one file, to which the record
// of one id is attached. No id gets the record of another, and no deleted id comes
// back.
func TestDiskAttachedShared(t *testing.T) {
	var c storetest.Clock
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{Now: c.Now})
	data := storetest.Text(1000, 81)
	a := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	b := storetest.Put(t, s, storetest.NewRecord("s", "b"), data)
	storetest.Put(t, s, storetest.NewRecord("other", "a"), data)
	checkSameFile(t, blobFile(dir, a), filepath.Join(dir, "s", "a.md"), filepath.Join(dir, "s", "b.md"), filepath.Join(dir, "other", "a.md"))
	if err := s.Delete(t.Context(), "s", "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, offload.ErrNotFound) {
		t.Errorf("the deleted one: %v", err)
	}
	storetest.CheckContent(t, s, b, data)
	c.Advance(time.Minute)
	again := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	got, err := s.Get(t.Context(), "s", "a")
	if err != nil || !got.CreatedAt.Equal(again.CreatedAt) || again.CreatedAt.Equal(a.CreatedAt) {
		t.Errorf("put at %v and again at %v, got the one of %v, %v", a.CreatedAt, again.CreatedAt, got.CreatedAt, err)
	}
	if n := countListed(t, s, ""); n != 3 {
		t.Errorf("%d artifacts, want 3", n)
	}
}

// TestDiskAttachedExpires: an attached record expires, is refreshed by reads, and is
// replaced like any other record.
func TestDiskAttachedExpires(t *testing.T) {
	for _, sweep := range []bool{false, true} {
		var c storetest.Clock
		dir := t.TempDir()
		s := openTest(t, dir, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
		data := storetest.Text(1000, 82)
		storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
		c.Advance(40 * time.Minute)
		if _, err := s.Get(t.Context(), "s", "a"); err != nil {
			t.Error(err)
		}
		c.Advance(40 * time.Minute)
		if _, err := s.Get(t.Context(), "s", "a"); err != nil {
			t.Errorf("it was read 40 minutes ago: %v", err)
		}
		storetest.Put(t, s, storetest.NewRecord("s", "b"), storetest.Text(1000, 83))
		c.Advance(61 * time.Minute)
		if sweep {
			if report, err := s.Sweep(t.Context(), 0); err != nil || report.Records != 2 || report.Blobs != 2 {
				t.Errorf("sweep: %+v, %v; want both", report, err)
			}
		}
		for _, id := range []string{"a", "b"} {
			if _, err := s.Get(t.Context(), "s", id); !errors.Is(err, offload.ErrExpired) {
				t.Errorf("%s: %v, want ErrExpired", id, err)
			}
		}
		next := storetest.Text(1000, 84)
		storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "b"), next), next)
	}
}

// TestDiskAttachedTombstone: after a sweep that fails half-way, an expired record still
// returns ErrExpired.
func TestDiskAttachedTombstone(t *testing.T) {
	var c storetest.Clock
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(1000, 89))
	c.Advance(61 * time.Minute)
	if err := os.Remove(filepath.Join(dir, tempDir)); err != nil { // so that no file can be written
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 0); err == nil {
		t.Error("the sweep succeeded without tempDir")
	}
	if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, offload.ErrExpired) {
		t.Errorf("get: %v, want ErrExpired", err)
	}
}

// TestDiskAttachedAlwaysFound: while a record moves from its content to a file, and its
// content to another file, every reader finds it.
func TestDiskAttachedAlwaysFound(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	for i := range 100 {
		id, data := fmt.Sprint("a", i), storetest.Text(1000, uint64(i))
		out := storetest.Put(t, s, storetest.NewRecord("s", id), data)
		if err := os.Remove(blobFile(dir, out)); err != nil {
			t.Fatal(err)
		}
		storetest.Put(t, s, storetest.NewRecord("s", "other"+id), data)
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					if _, err := s.Get(t.Context(), "s", id); err != nil {
						t.Error(err)
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		storetest.Put(t, s, storetest.NewRecord("s", id), data) // links it to the blob again
		close(done)
		wg.Wait()
	}
}

// TestDiskCopyWithoutAttributes: after a sweep, a copy of the directory without
// attributes is complete.
func TestDiskCopyWithoutAttributes(t *testing.T) {
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(index.BlockSize+1, 85)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	writeAllAttached(t, s)
	writeAllAttached(t, s) // has nothing to do
	if got := sessionFiles(t, filepath.Join(dir, "s")); got != ".a.artifact.json a.md" {
		t.Errorf("the session has %q", got)
	}
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	storetest.CheckContent(t, openTest(t, backup, offload.StoreConfig{}), out, data)
}

// TestDiskAttachedTooLarge: a record that is too large for an attribute gets a file.
func TestDiskAttachedTooLarge(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{})
	out, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), strings.NewReader("text"), func(r *offload.Record, _ offload.Content) error {
		r.Summary = strings.Repeat("x", maxAttr)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := sessionFiles(t, filepath.Join(dir, "s")); got != ".a.artifact.json a.md" {
		t.Errorf("the session has %q", got)
	}
	if got, err := s.Get(t.Context(), "s", "a"); err != nil || got.Summary != out.Summary {
		t.Errorf("got a summary of %d bytes, %v", len(got.Summary), err)
	}
}

// TestDiskAttachedForeign: a copied file with the attribute of another file is no
// artifact. The store neither overwrites nor sweeps it.
func TestDiskAttachedForeign(t *testing.T) {
	dir := t.TempDir()
	needAttrs(t, dir)
	s := openTest(t, dir, offload.StoreConfig{})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(1000, 86))
	f, err := os.Open(filepath.Join(dir, "s", "a.md"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := getAttr(f, recordAttr)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s/b.md", "copy/a.md"} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("mine"), 0o600)); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(setAttr(f, recordAttr, record), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "s", "c.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	if n := countListed(t, s, ""); n != 1 {
		t.Errorf("%d artifacts, want 1", n)
	}
	writeAllAttached(t, s)
	for session, id := range map[string]string{"s": "b", "copy": "a"} {
		if _, err := s.Get(t.Context(), session, id); !errors.Is(err, offload.ErrNotFound) {
			t.Errorf("get %s/%s: %v", session, id, err)
		}
		if _, err := s.Put(t.Context(), storetest.NewRecord(session, id), strings.NewReader("text"), nil); !errors.Is(err, offload.ErrExists) {
			t.Errorf("put %s/%s: %v, want ErrExists", session, id, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, session, id+".md")); string(got) != "mine" {
			t.Errorf("%s/%s.md holds %q, %v", session, id, got, err)
		}
	}
}

// TestDiskAttachedDamaged: with an unreadable record, a sweep removes no content and
// reports the record. The next Put replaces it.
func TestDiskAttachedDamaged(t *testing.T) {
	for _, damaged := range []string{`{"session":`, strings.Repeat("x", maxAttr+1)} {
		testDamaged(t, damaged)
	}
}

func testDamaged(t *testing.T, damaged string) {
	dir := t.TempDir()
	needAttrs(t, dir)
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(1000, 87)
	storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	name := filepath.Join(dir, "s", "a.md")
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(setAttr(f, recordAttr, []byte(damaged)), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, offload.ErrCorrupt) {
		t.Errorf("get: %v, want ErrCorrupt", err)
	}
	if report, err := s.Sweep(t.Context(), 0); err == nil || report.Blobs != 0 {
		t.Errorf("sweep: %+v, %v; want an error and nothing removed", report, err)
	}
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
	writeAllAttached(t, s)
}

// TestDiskAttachedLostBlob: a Put of an existing id may find its bytes in another file
// with another record or none. The id keeps its own record.
func TestDiskAttachedLostBlob(t *testing.T) {
	for _, between := range []string{"", "b"} {
		dir := t.TempDir()
		s := openTest(t, dir, offload.StoreConfig{})
		data := storetest.Text(1000, 88)
		a := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
		if err := os.Remove(blobFile(dir, a)); err != nil {
			t.Fatal(err)
		}
		if between != "" {
			storetest.Put(t, s, storetest.NewRecord("s", between), data)
		}
		if again := storetest.Put(t, s, storetest.NewRecord("s", "a"), data); !again.CreatedAt.Equal(a.CreatedAt) {
			t.Errorf("it is of %v, was put at %v", again.CreatedAt, a.CreatedAt)
		}
		if got, err := s.Get(t.Context(), "s", "a"); err != nil || !got.CreatedAt.Equal(a.CreatedAt) {
			t.Errorf("got one of %v, %v; put at %v", got.CreatedAt, err, a.CreatedAt)
		}
		storetest.CheckContent(t, s, a, data)
		checkSameFile(t, blobFile(dir, a), filepath.Join(dir, "s", "a.md"))
	}
}

// TestDiskHasRecordFileFails: if Lstat fails, for example with too many open files, the
// store must not assume that a record file exists.
func TestDiskHasRecordFileFails(t *testing.T) {
	s := openTest(t, t.TempDir(), offload.StoreConfig{})
	s.Close()
	if hasFile, err := s.hasRecordFile(record.Entry{Record: storetest.NewRecord("s", "a")}); hasFile || err == nil {
		t.Errorf("a closed store: %v, %v; want an error", hasFile, err)
	}
}
