package tables

import (
	"os"
	"path/filepath"
	"testing"
)

// What cleans temporary directories may remove a database that was not used for days, or all of them with their directory.
func TestCleanedCache(t *testing.T) {
	t.Parallel()
	c := NewCache(t.TempDir())
	take := func(want bool) string {
		t.Helper()
		file, exists, done, err := c.Take("key")
		if err != nil || exists != want {
			t.Fatalf("exists: %v, want %v; %v", exists, want, err)
		}
		if !exists {
			if err := os.WriteFile(file, []byte("rows"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		done()
		return file
	}
	for _, removed := range []func(file string) string{func(file string) string { return file }, filepath.Dir} {
		if err := os.RemoveAll(removed(take(false))); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(removed(take(false))); err != nil {
			t.Fatal(err)
		}
		take(false)
		if err := os.RemoveAll(removed(take(true))); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
