package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

func openTest(t *testing.T, dir string, cfg offload.StoreConfig) *Store {
	t.Helper()
	s, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// blobFile returns the path of the blob of a record.
func blobFile(dir string, r offload.Record) string {
	return filepath.Join(dir, blobDir, strings.TrimPrefix(r.Digest, offload.DigestPrefix))
}

// contentFile returns the path of the content of a record.
func contentFile(dir string, r offload.Record) string {
	return filepath.Join(dir, r.Session, r.ID+contentSuffix)
}

// checkSameFile fails unless all names are links to one file.
func checkSameFile(t *testing.T, names ...string) {
	t.Helper()
	var first os.FileInfo
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = info
		}
		if !os.SameFile(first, info) {
			t.Errorf("%q is not the same file as %q", name, names[0])
		}
	}
}

// countListed counts the artifacts of a session, or of all sessions.
func countListed(t *testing.T, s *Store, session string) (n int) {
	t.Helper()
	for _, err := range s.List(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func newHarness(t *testing.T) storetest.Harness {
	dir := t.TempDir()
	// damage lets change write to the content of a record, and to its blob, if that is another file.
	damage := func(t *testing.T, rec offload.Record, change func(name string) error) {
		for _, name := range []string{blobFile(dir, rec), contentFile(dir, rec)} {
			if err := errors.Join(os.Chmod(name, 0o600), change(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return storetest.Harness{
		Open: func(t *testing.T, cfg offload.StoreConfig) offload.Store { return openTest(t, dir, cfg) },
		Corrupt: func(t *testing.T, rec offload.Record, i int) {
			damage(t, rec, func(name string) error {
				f, err := os.OpenFile(name, os.O_RDWR, 0)
				if err == nil {
					_, err = f.WriteAt([]byte{0}, int64(i)*index.BlockSize+60)
				}
				return errors.Join(err, f.Close())
			})
		},
		Lose: func(t *testing.T, rec offload.Record, i int) {
			damage(t, rec, func(name string) error { return os.Truncate(name, int64(i)*index.BlockSize) })
		},
		Stored: func(t *testing.T) int {
			n := 0
			for _, d := range []string{blobDir, tempDir} {
				entries, err := os.ReadDir(filepath.Join(dir, d))
				if err != nil {
					t.Fatal(err)
				}
				n += len(entries)
			}
			return n
		},
	}
}

func TestStore(t *testing.T) { storetest.Run(t, newHarness) }

// TestCopiedDirectory: a copy of the directory by a program that copies only names and
// bytes is complete.
func TestCopiedDirectory(t *testing.T) {
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	s := openTest(t, dir, offload.StoreConfig{})
	data := storetest.Text(index.BlockSize+1, 85)
	out := storetest.Put(t, s, storetest.NewRecord("s", "a"), data)
	storetest.Put(t, s, storetest.NewRecord("t", "b"), data)
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	copied := openTest(t, backup, offload.StoreConfig{})
	storetest.CheckContent(t, copied, out, data)
	if n := countListed(t, copied, ""); n != 2 {
		t.Errorf("the copy lists %d artifacts, want 2", n)
	}
	storetest.CheckContent(t, copied, storetest.Put(t, copied, storetest.NewRecord("s", "a"), data), data)
}

// TestExpiredRecordStaysExpired: after a sweep that cannot write, an expired record still
// returns ErrExpired.
func TestExpiredRecordStaysExpired(t *testing.T) {
	var c storetest.Clock
	dir := t.TempDir()
	s := openTest(t, dir, offload.StoreConfig{TTL: time.Hour, Now: c.Now})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(1000, 89))
	c.Advance(61 * time.Minute)
	temp := filepath.Join(dir, tempDir)
	if err := errors.Join(os.Remove(temp), os.WriteFile(temp, nil, 0o600)); err != nil { // so that no file can be written
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), 0); err == nil {
		t.Error("the sweep succeeded without a directory for new files")
	}
	if _, err := s.Get(t.Context(), "s", "a"); !errors.Is(err, offload.ErrExpired) {
		t.Errorf("get: %v, want ErrExpired", err)
	}
}

// An artifact that is listed while it is put, or removed, is complete or not there, but not damaged.
func TestOpenDuringAPut(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir(), offload.StoreConfig{})
	s.now.links = false // to copy the content takes longer than to make a link
	data, ended := storetest.Text(20*index.BlockSize, 61), make(chan struct{})
	go func() {
		defer close(ended)
		for range 20 {
			_, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), bytes.NewReader(data), nil)
			if err = errors.Join(err, s.Delete(t.Context(), "s", "a")); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	defer func() { <-ended }()
	for {
		select {
		case <-ended:
			return
		default:
		}
		for rec, err := range s.List(t.Context(), "s") {
			if err != nil {
				t.Fatal(err)
			}
			c, err := s.Open(t.Context(), rec)
			if err == nil {
				err = c.Close()
			}
			if err != nil && !errors.Is(err, offload.ErrNotFound) {
				t.Fatal(err)
			}
		}
	}
}
