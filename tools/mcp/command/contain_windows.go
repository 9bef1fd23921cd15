package command

import (
	"os/exec"
	"strconv"
)

// Windows has no process groups to kill: see terminate.
func contain(*exec.Cmd) {}

func lockThread() (unlock func()) { return func() {} }

func wait(cmd *exec.Cmd) error { return cmd.Wait() }

// terminate ends the program and the processes that it started.
func terminate(cmd *exec.Cmd) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
}

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
