package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// If the user may not write to a directory, the error names it and says what to do.
func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	must(t, os.Mkdir(data, 0o555))
	for _, d := range []string{dir, filepath.Dir(dir)} { // the test's own, closed to others
		must(t, os.Chmod(d, 0o755))
	}
	asNobody(t, func() {
		if _, err := os.Stat(data); err != nil {
			t.Logf("not tested, the temporary directory is closed to other users: %v", err)
			return
		}
		lockFile := func() error { _, err := LockFile(t.Context(), filepath.Join(data, "f.lock")); return err }
		lockDir := func() error { _, err := LockDir(data); return err }
		lockNew := func() error { _, err := LockDir(filepath.Join(data, "new")); return err }
		for name, try := range map[string]func() error{"lock file": lockFile, "lock directory": lockDir, "lock new directory": lockNew} {
			err := try()
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), `no right to write in "`+data+`"; change its owner`) {
				t.Errorf("%s: got %v, want an error that names the directory and what to do", name, err)
			}
		}
		if err := WriteFile(filepath.Join(data, "f"), nil, 0o600); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), data) {
			t.Errorf("write: got %v", err)
		}
	})
}

// asNobody runs f without root's rights on files, on a thread that ends afterwards.
func asNobody(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Getuid() == 0 {
			runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
				return
			}
		}
		f()
	}()
	<-done
}
