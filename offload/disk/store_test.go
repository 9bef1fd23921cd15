package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	return storetest.Harness{
		Open: func(t *testing.T, cfg offload.StoreConfig) offload.Store { return openTest(t, dir, cfg) },
		Corrupt: func(t *testing.T, rec offload.Record, i int) {
			name := blobFile(dir, rec)
			if err := os.Chmod(name, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{0}, int64(i)*index.BlockSize+60); err != nil {
				t.Fatal(err)
			}
		},
		Lose: func(t *testing.T, rec offload.Record, i int) {
			name := blobFile(dir, rec)
			if err := errors.Join(os.Chmod(name, 0o600), os.Truncate(name, int64(i)*index.BlockSize)); err != nil {
				t.Fatal(err)
			}
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
