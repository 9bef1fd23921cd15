package commands

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/stevedore-bus/stevedore/cmd/internal/serverconfig"
)

// Commands that add tenants at the same time keep those of each other, and the key of each login.
func TestProvisionServerTogether(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "config")
	var adding sync.WaitGroup
	for i := range 8 {
		adding.Go(func() {
			cmd := newProvisionCommand()
			cmd.SetArgs([]string{"--server-config", dir, "--tenant", fmt.Sprint("tenant", i)})
			cmd.SetOut(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	stored, _, err := serverconfig.Read(dir)
	if err != nil || len(stored.Tenants) != 8 {
		t.Errorf("%d of 8 tenants, %v", len(stored.Tenants), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, serverconfig.File))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err == nil {
		t.Error("the lock is left")
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.nk"))
	if err != nil || len(keys) != 4*8+1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	for _, file := range keys {
		seed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := nkeys.ParseDecoratedUserNKey(seed)
		if err != nil {
			t.Fatal(err)
		}
		if public, err := pair.PublicKey(); err != nil || !strings.Contains(string(text), public) {
			t.Errorf("%s is not in the configuration, %v", filepath.Base(file), err)
		}
	}
}
