package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/modes"
)

// If the user may not write to a directory, the error names it and says what to do.
func TestReadOnlyDirectory(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(data, 0o555))
	modes.Obey(t)
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
}
