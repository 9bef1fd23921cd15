package builtin

import (
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// container keeps a command and all that it starts together, so that they end
// together. What holds:
//
//   - Always: the command has a process group, which is killed when the command
//     ended, timed out or was cancelled; the command itself is killed when the
//     worker dies, however it dies (Pdeathsig).
//   - With a PID namespace (flags != 0), which needs CAP_SYS_ADMIN or a kernel
//     that gives user namespaces to everybody: nothing survives, neither what
//     left the process group nor, when the worker is killed, a grandchild: the
//     kernel kills the namespace with its first process.
//   - Without one, a process that left the group (setsid) survives both, and a
//     grandchild survives the kill -9 of a worker.
type container struct {
	flags uintptr
}

// newContainer tries what the kernel allows here.
func newContainer(cfg ShellConfig) container {
	if cfg.NoPIDNamespace {
		return container{}
	}
	for _, flags := range []uintptr{unix.CLONE_NEWPID, unix.CLONE_NEWPID | unix.CLONE_NEWUSER} {
		c := container{flags: flags}
		argv := c.wrap([]string{"/bin/sh", "-c", "exit 0"})
		cmd := exec.Command(argv[0], argv[1:]...)
		c.prepare(cmd)
		if _, err := c.run(cmd, func() {}); err == nil {
			return c
		}
	}
	return container{}
}

// wrap puts a shell before the command to be the namespace's first process.
// The command should not be that itself: the kernel lets the first process
// ignore signals that it has no handler for.
func (c container) wrap(argv []string) []string {
	if c.flags == 0 {
		return argv
	}
	return append([]string{"/bin/sh", "-c", `"$@"; exit $?`, "sh"}, argv...)
}

// prepare sets the attributes of cmd.
func (c container) prepare(cmd *exec.Cmd) {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: c.flags}
	if c.flags&unix.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
}

// run starts cmd, calls started, waits for its end, kills what is left of its
// group, and says whether the command was killed because its context ended.
func (c container) run(cmd *exec.Cmd, started func()) (killed bool, err error) {
	// Pdeathsig fires when the thread that forked ends, so keep it until the
	// command ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var cancelled atomic.Bool
	if cmd.Cancel != nil { // made with a context
		cmd.Cancel = func() error {
			cancelled.Store(true)
			// Ask first; after WaitDelay package exec kills the command, and
			// the rest of the group follows below.
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		}
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	started()
	// Look without reaping: until it is reaped, the group's number cannot be
	// given to a stranger.
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	err = cmd.Wait()
	return cancelled.Load(), err
}
