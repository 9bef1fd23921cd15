package command

import (
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/stevedore-bus/stevedore/tools/internal/job"
)

// contain has the program start suspended, so that it cannot start another process
// before startGuarded adds it to a job.
func contain(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_SUSPENDED}
}

// startGuarded starts the program in a job. Windows ends the processes of the job when
// release is called, and when this process ends.
func startGuarded(cmd *exec.Cmd) (release func(), err error) {
	group, err := job.New()
	if err != nil {
		return nil, err
	}
	release = func() { _ = windows.CloseHandle(group) }
	if err := cmd.Start(); err != nil {
		release()
		return nil, err
	}
	if err := job.Resume(group, cmd.Process.Pid); err != nil {
		kill(cmd)
		_ = cmd.Wait()
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
