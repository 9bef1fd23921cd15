//go:build unix

package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// A store uses the directory that is at its path: it fails while there is none, uses a new one, and finds
// its artifacts again when the first one is back. An open directory that was moved away would take what
// nobody finds.
func TestDiskDirectoryIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := openTest(t, path, offload.StoreConfig{})
	first := storetest.Put(t, s, storetest.NewRecord("s", "first"), []byte("one\n"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(path, path+".away"))
	for name, do := range map[string]func() error{
		"put": func() error {
			_, err := s.Put(t.Context(), storetest.NewRecord("s", "lost"), strings.NewReader("lost\n"), nil)
			return err
		},
		"get":    func() error { _, err := s.Get(t.Context(), "s", "first"); return err },
		"open":   func() error { _, err := s.Open(t.Context(), first); return err },
		"delete": func() error { return s.Delete(t.Context(), "s", "first") },
		"sweep":  func() error { _, err := s.Sweep(t.Context(), 0); return err },
		"list": func() (err error) {
			for _, err = range s.List(t.Context(), "s") {
			}
			return err
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "moved or removed") {
			t.Errorf("%s without the directory: %v", name, err)
		}
	}
	must(os.Mkdir(path, 0o700))
	second := storetest.Put(t, s, storetest.NewRecord("s", "second"), []byte("two\n"))
	storetest.CheckContent(t, s, second, []byte("two\n"))
	if s.Replaced() == nil {
		t.Error("nothing says that the directory is another one")
	}
	if content, err := os.ReadFile(filepath.Join(path, "s", "second.md")); string(content) != "two\n" {
		t.Errorf("the new directory has %q, %v", content, err)
	}
	must(os.RemoveAll(path))
	must(os.Rename(path+".away", path))
	storetest.CheckContent(t, s, first, []byte("one\n"))
	if err := s.Replaced(); err != nil {
		t.Errorf("with the first directory: %v", err)
	}
}

// An empty directory is a new store, also if it is the one that was opened.
func TestDiskDirectoryIsEmptied(t *testing.T) {
	path := t.TempDir()
	s := openTest(t, path, offload.StoreConfig{})
	storetest.Put(t, s, storetest.NewRecord("s", "first"), []byte("one\n"))
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "second"), []byte("two\n")), []byte("two\n"))
}
