package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// A service without an environment has the data directory of its user.
func TestDefaultDataDirWithoutHome(t *testing.T) {
	u, err := user.Current()
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		t.Skip("this user has no home: ", err)
	}
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("HOME", "")
	if got := DefaultDataDir(); !strings.HasPrefix(got, u.HomeDir) {
		t.Errorf("%q is not in %q", got, u.HomeDir)
	}
}

// ownDir accepts only a directory that no other user can access.
func TestOwnDir(t *testing.T) {
	base := t.TempDir()
	dir := func(name string, mode os.FileMode) string {
		name = filepath.Join(base, name)
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	mine := dir("mine", 0o700)
	link := filepath.Join(base, "link")
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		mine: true, filepath.Join(base, "new"): true,
		dir("readable", 0o755): false, dir("writable", 0o777): false, link: false, file: false,
	} {
		if err := ownDir(name); (err == nil) != ok {
			t.Errorf("%s: %v, want it to be used: %v", name, err, ok)
		}
	}
	if os.Geteuid() == 0 {
		foreign := dir("foreign", 0o700)
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if ownDir(foreign) == nil {
			t.Error("another user's directory is used")
		}
	}
	t.Setenv("TMPDIR", base)
	c := Connection{Data: tempDataDir()}
	if err := os.Mkdir(c.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("check: %v, want it to refuse the directory", err)
	}
}
