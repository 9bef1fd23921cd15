//go:build !linux

package sandbox

import (
	"context"
	"os/exec"
)

// needsReaper reports that there is none for this system.
func (platform) needsReaper() bool { return false }

// reaped is not called, because nothing sets Run.Reap on this system.
func reaped(ctx context.Context, run Run, argv, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = run.Dir, env
	return cmd
}

// start starts cmd: there are no spare processes on this system.
func (*platform) start(cmd *exec.Cmd) error { return cmd.Start() }

func (*platform) close() {}
