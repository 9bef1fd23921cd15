package enter

import (
	"syscall"
	"unsafe"
)

// supervise runs the command as a child of this process, and ends as the command does. It is
// the first process of a PID namespace, which ends with it. Otherwise, with reap, it kills all
// processes that the command left behind. A process whose parent ends becomes a child of this
// one, also if it left the process group and the session.
func supervise(argv []string, reap bool) {
	if reap {
		must("become a subreaper", prctl(prSetChildSubreaper, 1, 0))
		syscall.CloseOnExec(ReapFD)
	}
	command, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env: syscall.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		failed(argv[0], err)
	}
	// The worker sends these to the process group, and the command may handle them.
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		must("ignore a signal", ignore(sig))
	}
	// What holds the pipe to the worker open waits for the end of the command, not of this process.
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	if reap {
		go killWithWorker()
	}
	end, err := waitFor(command)
	for reap && killChildren() {
		if pid, err := syscall.Wait4(-1, nil, 0, nil); pid <= 0 && err != syscall.EINTR {
			break // none is left
		}
	}
	if err != nil {
		syscall.Exit(ExitFailed) // nobody knows how the command ended
	}
	if end.Signaled() {
		syscall.Exit(128 + int(end.Signal()))
	}
	syscall.Exit(end.ExitStatus())
}

// waitFor waits until a child ends, and reaps the others that end before.
func waitFor(child int) (end syscall.WaitStatus, err error) {
	for {
		pid, err := syscall.Wait4(-1, &end, 0, nil)
		if pid == child {
			return end, nil
		} else if err != nil && err != syscall.EINTR {
			return 0, err
		}
	}
}

// killWithWorker kills the command when the other end of the pipe is closed.
func killWithWorker() {
	var b [1]byte
	for {
		n, err := syscall.Read(ReapFD, b[:])
		if n <= 0 && err != syscall.EINTR {
			break
		}
	}
	killChildren()
}

// killChildren kills the children of this process, and reports whether there was one. Theirs
// become its children. It cannot kill those that became another user (sudo).
func killChildren() (killed bool) {
	text, err := readFile("/proc/self/task/" + decimal(uint64(syscall.Getpid())) + "/children")
	if err != nil {
		return false
	}
	pid := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			pid = 10*pid + int(c-'0')
		case pid > 1:
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
			pid = 0
		}
	}
	return killed
}

// ignore has the kernel drop a signal. Package os/signal is not available here.
func ignore(sig syscall.Signal) error {
	action := struct{ handler, flags, restorer, mask uint64 }{handler: 1} // SIG_IGN
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	return errnoErr(errno)
}
