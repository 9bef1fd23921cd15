//go:build unix

package command

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardScript reads the number of a process group, and kills the group if the input then
// ends without another line.
const guardScript = `read -r group && { read -r line || kill -s KILL -- "-$group"; }`

// startGuarded starts the program, and a shell that kills the program's group if this
// process ends before release is called, even if it is killed: the end of the pipe tells
// the shell. Without it, the processes that the program started could go on. The shell
// starts first, so that it misses only a process that is killed just before it names the
// group.
func startGuarded(cmd *exec.Cmd) (release func(), err error) {
	shell := exec.Command("/bin/sh", "-c", guardScript)
	shell.Env = []string{}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil { // a system without a shell; the end of its input ends a server
		return func() {}, cmd.Start()
	}
	if err := cmd.Start(); err != nil {
		_ = pipe.Close()
		_ = shell.Wait()
		return nil, err
	}
	_, _ = fmt.Fprintln(pipe, cmd.Process.Pid) // fails only if somebody killed the shell
	return func() {
		_, _ = io.WriteString(pipe, "\n")
		_ = shell.Wait()
	}, nil
}
