//go:build unix

package offload

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFolderIsClosed: whatever names a record gives, nothing outside of the
// folder is read, made, moved or linked.
func TestFolderIsClosed(t *testing.T) {
	dir := t.TempDir()
	s := openTestDisk(t, filepath.Join(dir, "store"), StoreConfig{})
	outside := filepath.Join(dir, "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "store", tempDir, "link")); err != nil {
		t.Fatal(err)
	}
	mine, err := s.dir.temps.create("mine", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	temps, blobs := s.dir.temps, s.dir.blobs
	for _, name := range []string{"../../secret", outside, "..", ".", "", "../.blobs", "link"} {
		if f, _, err := temps.open(name); err == nil {
			f.Close()
			t.Errorf("opened %q", name)
		}
		if f, err := temps.create(name, 0o600); err == nil {
			f.Close()
			t.Errorf("created %q", name)
		}
		if name == "link" {
			continue // a link can be moved: it is a file like others
		}
		for op, do := range map[string]func(string, folder, string) error{"rename": temps.rename, "link": temps.link} {
			if err := do(name, blobs, "x"); err == nil {
				t.Errorf("%s of %q", op, name)
			}
			if err := do("mine", blobs, name); err == nil {
				t.Errorf("%s to %q", op, name)
			}
		}
	}
	if f, err := temps.create("../../made", 0o600); err == nil {
		f.Close()
		t.Error("created a file outside")
	}
	if got, err := os.ReadFile(outside); string(got) != "secret" {
		t.Errorf("the file outside holds %q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v lie outside, %v", entries, err)
	}
}

// TestFolderOfClosedStore: a Put that outlives its store fails, and no lock file
// stays open.
func TestFolderOfClosedStore(t *testing.T) {
	s := openTestDisk(t, t.TempDir(), StoreConfig{})
	f, err := s.dir.temp(0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unlock, err := s.dir.lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	s.Close()
	for i := range s.dir.locks {
		if s.dir.locks[i].file != nil {
			t.Errorf("lock file %d is open", i)
		}
	}
	if err := f.become("x", s.dir.blobs); !errors.Is(err, os.ErrClosed) {
		t.Errorf("rename: %v, want ErrClosed", err)
	}
	if _, err := s.dir.temps.create("x", 0o600); !errors.Is(err, os.ErrClosed) {
		t.Errorf("create: %v, want ErrClosed", err)
	}
	if _, err := s.dir.lock(t.Context(), "x"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("lock: %v, want ErrClosed", err)
	}
}
