package offload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func diskHarness(t *testing.T) harness {
	dir := t.TempDir()
	blob := func(rec Record) string {
		return filepath.Join(dir, blobDir, strings.TrimPrefix(rec.Digest, digestPrefix))
	}
	return harness{
		open: func(t *testing.T, cfg StoreConfig) Store {
			s, err := OpenDisk(dir, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
		corrupt: func(t *testing.T, rec Record, i int) {
			name := blob(rec)
			if err := os.Chmod(name, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{0}, int64(i)*BlockSize+60); err != nil {
				t.Fatal(err)
			}
		},
		lose: func(t *testing.T, rec Record, i int) {
			name := blob(rec)
			if err := errors.Join(os.Chmod(name, 0o600), os.Truncate(name, int64(i)*BlockSize)); err != nil {
				t.Fatal(err)
			}
		},
		stored: func(t *testing.T) int {
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

func TestDiskStore(t *testing.T) { testStore(t, diskHarness) }
