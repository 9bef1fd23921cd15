package process

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// A workspace that is removed, or replaced by another directory, is reported until the one of before is back.
func TestLostWorkspaceIsReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		register := new(trouble.Register)
		go func() { _ = watchWorkspace(register.With(t.Context()), dir) }()
		for _, step := range []struct {
			name   string
			change func() error
			lost   bool
		}{
			{"untouched", func() error { return nil }, false},
			{"moved away", func() error { return os.Rename(dir, dir+"-before") }, true},
			{"replaced", func() error { return os.Mkdir(dir, 0o700) }, true},
			{"put back", func() error {
				if err := os.Remove(dir); err != nil {
					return err
				}
				return os.Rename(dir+"-before", dir)
			}, false},
		} {
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * watchInterval)
			synctest.Wait()
			if got := register.List(); (len(got) == 1 && got[0].Kind == trouble.Workspace) != step.lost || len(got) > 1 {
				t.Errorf("%s: %+v", step.name, got)
			}
		}
	})
}
