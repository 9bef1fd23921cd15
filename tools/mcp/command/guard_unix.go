//go:build unix

package command

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// guard starts a shell that kills the group of the program if this process ends before
// release is called, even if it is killed: the end of the pipe tells the shell. Without
// it, the processes that the program started could go on.
func guard(cmd *exec.Cmd) (release func(), err error) {
	shell := exec.Command("/bin/sh", "-c", `read -r line || kill -s KILL -- "-$1"`, "sh", strconv.Itoa(cmd.Process.Pid))
	shell.Env = []string{}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil { // a system without a shell; the end of its input ends a server
		return func() {}, nil
	}
	return func() {
		_, _ = io.WriteString(pipe, "\n")
		_ = shell.Wait()
	}, nil
}
