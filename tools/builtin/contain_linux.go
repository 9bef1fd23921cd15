package builtin

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/tools/sandbox"
)

// container ends a command together with all processes that it started. If the command runs
// in a sandbox, flags is 0 and the namespaces are those of the sandbox.
//
//   - The command has a process group, which run kills when the command has ended,
//     timed out or was cancelled. The kernel kills the command itself when the worker
//     dies (Pdeathsig).
//   - With a PID namespace (flags != 0), no process survives the command or the
//     worker, because the kernel kills the namespace together with its first process.
//     This needs CAP_SYS_ADMIN, or a kernel that allows user namespaces for everyone.
//   - Without a PID namespace, a process beside the command is the parent of all processes
//     that lost theirs (PR_SET_CHILD_SUBREAPER), and kills them when the command or the
//     worker has ended. A command of the same user can kill that process, too.
type container struct {
	flags   uintptr
	reaper  bool             // without a PID namespace
	sandbox *sandbox.Sandbox // nil if commands run without
}

// containerIn returns the container for commands in a sandbox, which has its own namespaces.
func containerIn(s *sandbox.Sandbox) container {
	return container{reaper: s.NeedsReaper(), sandbox: s}
}

func (c container) reaps() bool { return c.reaper }

// newContainer finds out which namespaces the kernel allows.
func newContainer() container {
	for _, flags := range []uintptr{unix.CLONE_NEWPID, unix.CLONE_NEWPID | unix.CLONE_NEWUSER} {
		c := container{flags: flags}
		argv := c.wrap([]string{"/bin/sh", "-c", "exit 0"})
		cmd := exec.Command(argv[0], argv[1:]...)
		c.prepare(cmd)
		if _, err := c.run(context.Background(), cmd, func() {}); err == nil {
			return c
		}
	}
	return container{reaper: true}
}

// wrap makes a shell the first process of the namespace. The command should not be the
// first process, because that ignores signals for which it has no handler.
func (c container) wrap(argv []string) []string {
	if c.flags == 0 {
		return argv
	}
	return append([]string{"/bin/sh", "-c", `"$@"; exit $?`, "sh"}, argv...)
}

// prepare sets the attributes of cmd, in addition to those of a sandbox.
func (c container) prepare(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	attr := cmd.SysProcAttr
	attr.Setpgid = true
	if !c.reaper { // which outlives the worker to kill the command
		attr.Pdeathsig = syscall.SIGKILL
	}
	attr.Cloneflags |= c.flags
	if c.flags&unix.CLONE_NEWUSER != 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
}

// lead gives the reaper of cmd a pipe. When release closes the other end, or this process
// dies, the reaper kills all processes of the command.
func (c container) lead(cmd *exec.Cmd) (release func(), err error) {
	if !c.reaper {
		return func() {}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{r}
	return sync.OnceFunc(func() { _ = w.Close() }), nil
}

// start starts cmd.
func (c container) start(cmd *exec.Cmd) error {
	if c.sandbox == nil {
		return cmd.Start()
	}
	return c.sandbox.Start(cmd)
}

// run starts cmd, calls started, waits for the end of cmd, kills the rest of its
// group, and reports whether the command was killed because ctx ended.
func (c container) run(ctx context.Context, cmd *exec.Cmd, started func()) (killed bool, err error) {
	// Pdeathsig fires when the thread that forked ends, so keep that thread until the
	// command has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	release, err := c.lead(cmd)
	if err != nil {
		return false, err
	}
	defer release()
	grace := cmd.WaitDelay
	cmd.Cancel = nil // run terminates the command: package exec does not know it if it is a spare process
	if c.reaper {
		cmd.WaitDelay = min(2*grace, grace+5*time.Second) // the reaper kills the command before
	}
	err = c.start(cmd)
	for _, f := range cmd.ExtraFiles {
		_ = f.Close()
	}
	if err != nil {
		return false, err
	}
	started()
	cancelled := c.terminate(ctx, cmd.Process.Pid, grace, release)
	// Wait without reaping: until the command is reaped, the kernel does not reuse
	// the number of its group.
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	killed = cancelled()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	err = cmd.Wait()
	return killed, err
}

// terminate sends SIGTERM to a group when ctx ends, and kills the group after grace. After stop,
// which reports whether ctx ended before, it sends no more signals.
func (c container) terminate(ctx context.Context, group int, grace time.Duration, release func()) (stop func() bool) {
	ended, cancelled := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-ended:
			cancelled <- false
			return
		case <-ctx.Done():
		}
		_ = syscall.Kill(-group, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(grace):
			if c.reaper {
				release()
			} else {
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
		}
		cancelled <- true
	}()
	return func() bool {
		close(ended)
		return <-cancelled
	}
}
