//go:build unix

package embedded

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Another user's pipe or file with the name of an old directory neither stops the start of
// a server nor keeps the old directories.
func TestOldStagingThatIsNoDirectory(t *testing.T) {
	memory := t.TempDir()
	pipe, file, old := filepath.Join(memory, "stevedore-batches-1"), filepath.Join(memory, "stevedore-batches-2"), filepath.Join(memory, "stevedore-batches-3")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("cannot make a pipe: ", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(old, "STREAM"), 0o700); err != nil {
		t.Fatal(err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		removeOld(memory)
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		t.Fatal("it waits for a writer of the pipe")
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old directory is left: %v", err)
	}
	for _, other := range []string{pipe, file} {
		if _, err := os.Lstat(other); err != nil {
			t.Error(err)
		}
	}
}
