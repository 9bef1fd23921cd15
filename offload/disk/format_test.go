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

// A store of an unreleased version, which has no format version, is neither read as empty
// nor changed. The layouts are those of the commit 358fcd4: a content with an attached
// record, and one with a record file.
func TestUnmarkedStoreIsRefused(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"content": {".blobs/0123": "text", "s1/a1.md": "text"},
		"record":  {".blobs/0123": "text", "s1/a1.md": "text", "s1/.a1.artifact.json": "{}"},
	} {
		dir := t.TempDir()
		for file, text := range files {
			file = filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o400)); err != nil {
				t.Fatal(err)
			}
		}
		before := filesIn(t, dir)
		_, err := Open(dir, offload.StoreConfig{})
		if _, ok := errors.AsType[*durable.FormatError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{dir, "without a format version", "version 2", "another directory"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v lacks %q", name, err, want)
			}
		}
		if after := filesIn(t, dir); strings.Join(after, "\n") != strings.Join(before, "\n") {
			t.Errorf("%s: %q became %q", name, before, after)
		}
	}
}

// A directory with the files of other programs may become a store.
func TestForeignFilesDoNotCount(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"notes", ".blobs", ".tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "notes", "todo.md"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, openTest(t, dir, offload.StoreConfig{}), storetest.NewRecord("s", "a"), []byte("text"))
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
