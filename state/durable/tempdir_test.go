package durable

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A directory that an ended process left behind is removed, but none that a process uses.
func TestTempDir(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "[a") // no pattern of Glob
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	must(os.Mkdir(parent, 0o700))
	if _, _, err := TempDir(filepath.Join(parent, "missing"), "p-"); err == nil {
		t.Error("a parent that does not exist is no error")
	}
	used, lock, err := TempDir(parent, "p-")
	must(err)
	hourAgo := time.Now().Add(-time.Hour)
	for _, name := range []string{"p-old", "p-young", "q-old"} {
		must(os.Mkdir(filepath.Join(parent, name), 0o700))
	}
	for _, dir := range []string{"p-old", "q-old", filepath.Base(used)} {
		must(os.Chtimes(filepath.Join(parent, dir), hourAgo, hourAgo))
	}
	check := func(dir string, want bool) {
		t.Helper()
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	RemoveLeft(parent, "p-", os.RemoveAll)
	other, otherLock, err := TempDir(parent, "p-")
	must(err)
	check(filepath.Join(parent, "p-old"), false)
	check(filepath.Join(parent, "p-young"), true)
	check(filepath.Join(parent, "q-old"), true)
	check(used, true)
	must(lock.Unlock())
	must(os.Chtimes(used, hourAgo, hourAgo))
	RemoveLeft(parent, "p-", os.RemoveAll)
	check(used, false)
	check(other, true)
	must(otherLock.Unlock())
}
