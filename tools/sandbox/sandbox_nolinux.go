//go:build !linux

package sandbox

import (
	"context"
	"os/exec"
)

// unconfined returns the command that runs argv.
func (s *Sandbox) unconfined(ctx context.Context, run Run, tmp string, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = run.Dir, run.Env
	if s.cfg.Mode != Off {
		cmd.Env = s.environment(run.Env, tmp)
	}
	return cmd
}

// visible returns the path at which a command sees its temporary directory.
func (*platform) visible(tmp string) string { return tmp }

// reaps reports that there is no helper for this system that kills what a command leaves behind.
func (*platform) reaps() bool { return false }
