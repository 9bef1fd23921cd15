//go:build !linux && !darwin

package sandbox

import (
	"context"
	"fmt"
	"os/exec"
)

// DefaultMode is the mode of this system, which has no sandbox that we can use.
const DefaultMode = BestEffort

// platform confines nothing.
type platform struct{}

func (platform) open(s *Sandbox) error {
	if s.cfg.Mode == Required {
		return fmt.Errorf("%w: there is no sandbox for this operating system", ErrUnconfined)
	}
	return nil
}

func (platform) protection() Protection {
	return Protection{Missing: []string{"there is no sandbox for this operating system, so a command can use all files of this user " +
		"and the network; run the worker as a user of its own"}}
}

func (platform) command(ctx context.Context, s *Sandbox, run Run, protected []string, tmp string, argv []string) (*exec.Cmd, error) {
	return s.unconfined(ctx, run, tmp, argv), nil
}
