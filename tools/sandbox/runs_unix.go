//go:build unix

package sandbox

import (
	"errors"
	"syscall"
)

// runs reports whether a process with the id exists.
func runs(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
