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

// apart makes a command a process group of its own, so that lower finds all of its threads. The
// system kills the command with this program.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// lower gives a process a tenth of the processor time that this one gets, if both want it.
func lower(pid int) {
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, pid, 20-own+10) // the system call returns 20 less the niceness
	}
}
