package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/storetest"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// A directory with other files is neither used nor changed: one of another program, and a store of
// an unreleased version (commit 358fcd4), which has no format version.
func TestForeignDirectoryIsRefused(t *testing.T) {
	for name, files := range map[string][]string{
		"content": {".blobs/0123", "s1/a1.md"}, "record": {".blobs/0123", "s1/a1.md", "s1/.a1.artifact.json"}, "project": {".git/config", "go.mod"},
		"files in a directory that a store cleans": {".tmp/important.txt"},
	} {
		dir := t.TempDir()
		makeFiles(t, dir, files...)
		before := filesIn(t, dir)
		_, err := Open(dir, offload.StoreConfig{})
		if _, ok := errors.AsType[*durable.FormatError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{dir, "but no artifact store", "version 2", "use a new directory", durable.FormatFile} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v lacks %q", name, err, want)
			}
		}
		if after := filesIn(t, dir); strings.Join(after, "\n") != strings.Join(before, "\n") {
			t.Errorf("%s: %q became %q", name, before, after)
		}
	}
}

// A new file system and hidden files do not count, and a store may have files of other programs.
func TestForeignFilesDoNotCount(t *testing.T) {
	dir := t.TempDir()
	makeFiles(t, dir, "lost+found/x", ".DS_Store", ".git/config")
	storetest.Put(t, openTest(t, dir, offload.StoreConfig{}), storetest.NewRecord("s", "a"), []byte("text"))
	makeFiles(t, dir, "notes/todo.md")
	storetest.Put(t, openTest(t, dir, offload.StoreConfig{}), storetest.NewRecord("s", "b"), []byte("text"))
}

func makeFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("text"), 0o400)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnknownVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	storetest.Put(t, openTest(t, dir, offload.StoreConfig{}), storetest.NewRecord("s", "a"), []byte("text"))
	before := filesIn(t, dir)
	for mark, want := range map[string]string{
		`{"format":"artifact store","version":3}`: `has version 3 of the format "artifact store"; this program reads version 2`,
		`{"format":"artifact store","version":1}`: `has version 1 of the format "artifact store"; this program reads version 2`,
		`{"format":"data directory","version":1}`: `has the format "data directory", version 1; this program reads version 2`,
		`{"format":"artifact store",`:             "damaged",
	} {
		if err := os.WriteFile(filepath.Join(dir, durable.FormatFile), []byte(mark), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, offload.StoreConfig{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", mark, err, want)
		}
		if after := filesIn(t, dir); strings.Join(after, "\n") != strings.Join(before, "\n") {
			t.Errorf("%s: %q became %q", mark, before, after)
		}
	}
}

// Processes that open a new directory together all succeed, also while one of them stores
// contents already.
func TestOpenNewDirectoryTogether(t *testing.T) {
	t.Parallel()
	for range 5 {
		dir := t.TempDir()
		var opened sync.WaitGroup
		for i := range 4 {
			opened.Go(func() {
				s, err := Open(dir, offload.StoreConfig{})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if _, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprint(i)), strings.NewReader(fmt.Sprint(i)), nil); err != nil {
					t.Error(err)
				}
			})
		}
		opened.Wait()
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(filepath.Dir(name)) != lockDir {
			names = append(names, strings.TrimPrefix(name, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
