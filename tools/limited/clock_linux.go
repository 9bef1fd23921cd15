package limited

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processTime returns a function that says how much processor time a process has used: 0 if it has
// ended. The pid 0 is this process.
func processTime(pid int) func() time.Duration {
	id := int32(^pid<<3 | 2) // as MAKE_PROCESS_CPUCLOCK of the kernel
	return func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(id, &t) != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}
}

// apart makes a command a process group of its own, so that lower finds all of its threads.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// lower gives a process a third of the processor time that others get.
func lower(pid int) { _ = unix.Setpriority(unix.PRIO_PGRP, pid, 5) }
