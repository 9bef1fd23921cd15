package cli

import (
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

// A user without a home must name a data directory.
func TestNoDataDir(t *testing.T) {
	if err := new(Connection).Check(); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("check: %v, want it to ask for --data", err)
	}
}
