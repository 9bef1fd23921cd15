package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// What the sandbox has found stays protected, also if a command makes more entries than one
// scan examines. What is gone is not protected any more.
func TestWhatWasFoundStaysProtected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept, removed := filepath.Join(dir, "r1", ".git"), filepath.Join(dir, "r2", ".git")
	for _, path := range []string{kept, removed} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var p protection
	if found := p.find([]string{dir}); !slices.Contains(found, kept) || !slices.Contains(found, removed) {
		t.Fatalf("found %q", found)
	}
	if err := os.RemoveAll(removed); err != nil {
		t.Fatal(err)
	}
	for i := range maxScanned + 1 {
		if err := os.MkdirAll(filepath.Join(dir, "0", fmt.Sprint("d", i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.at = time.Now().Add(-2 * rescan)
	if found := p.find([]string{dir}); !slices.Contains(found, kept) || slices.Contains(found, removed) {
		t.Errorf("after %d new directories, found %q", maxScanned+1, found)
	}
}
