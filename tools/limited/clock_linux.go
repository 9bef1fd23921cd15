package limited

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns a function that says how much processor time the current thread has used. Any
// thread may call it.
func threadTime() func() time.Duration { return clock(unix.Gettid(), 6) }

// processTime returns a function that says how much processor time a process has used: 0 if it has
// ended. The pid 0 is this process.
func processTime(pid int) func() time.Duration { return clock(pid, 2) }

// clock reads a clock that the kernel calls MAKE_THREAD_CPUCLOCK or MAKE_PROCESS_CPUCLOCK.
func clock(id, which int) func() time.Duration {
	return func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(int32(^id<<3|which), &t) != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}
}

// apart makes a command a process group of its own, so that lower finds all of its threads.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// lower gives a process a third of the processor time that others get.
func lower(pid int) { _ = unix.Setpriority(unix.PRIO_PGRP, pid, 5) }
