package command

import (
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/stevedore-bus/stevedore/tools/internal/job"
)

// contain has the program start suspended, so that it cannot start another process
// before guard adds it to a job.
func contain(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
}

// guard adds the program to a job. Windows ends the processes of the job when release
// is called, and when this process ends.
func guard(cmd *exec.Cmd) (release func(), err error) {
	group, err := job.New()
	if err != nil {
		return nil, err
	}
	release = func() { _ = windows.CloseHandle(group) }
	if err := job.Resume(group, cmd.Process.Pid); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func lockThread() (unlock func()) { return func() {} }

func wait(cmd *exec.Cmd) error { return cmd.Wait() }

// terminate ends the program and the processes that it started.
func terminate(cmd *exec.Cmd) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
