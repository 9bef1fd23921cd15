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

// A user without a home must name a data directory.
func TestNoDataDir(t *testing.T) {
	if err := new(Connection).Check(); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("check: %v, want it to ask for --data", err)
	}
}

// A process whose directory was removed, and which another one has made again, leaves that one reachable.
func TestWithdrawsOnlyItsOwnURL(t *testing.T) {
	t.Parallel()
	c := Connection{Data: t.TempDir()}
	settings := filepath.Join(c.Data, "settings")
	var withdraw [2]func() error
	for i, url := range []string{"nats://old", "nats://new"} {
		if err := os.WriteFile(settings, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if withdraw[i], err = c.PublishURL(url, settings); err != nil {
			t.Fatal(err)
		}
	}
	for i, left := range []int{2, 0, 0} { // the last one finds nothing
		if err := withdraw[min(i, 1)](); err != nil {
			t.Error(err)
		}
		if files, err := os.ReadDir(c.Data); err != nil || len(files) != left {
			t.Errorf("%d: %d files, %v", i, len(files), err)
		}
	}
}
