package enter

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// supervise runs the command as a child of this process, and ends as the command does. It is
// the first process of a PID namespace, which ends with it. Otherwise, with reap, it kills all
// processes that the command left behind. A process whose parent ends becomes a child of this
// one, also if it left the process group and the session.
func supervise(program string, argv []string, reap bool) {
	if reap {
		must("become a subreaper", prctl(unix.PR_SET_CHILD_SUBREAPER, 1))
		syscall.CloseOnExec(reapFD)
	}
	command, err := syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		failed(argv[0], err)
	}
	// The worker sends these to the process group, and the command may handle them.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
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
		syscall.Exit(exitFailed) // nobody knows how the command ended
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
		n, err := syscall.Read(reapFD, b[:])
		if n <= 0 && err != syscall.EINTR {
			break
		}
	}
	killChildren()
}

// killChildren kills the children of this process, and reports whether there was one. Theirs
// become its children. It cannot kill those that became another user (sudo).
func killChildren() (killed bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return false
	}
	for field := range strings.FieldsSeq(string(text)) {
		var pid int
		if _, err := fmt.Sscan(field, &pid); err == nil && pid > 1 {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
		}
	}
	return killed
}
