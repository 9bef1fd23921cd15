package enter

import "syscall"

// await waits until the worker sends a command to this process, which the worker started in
// advance. It makes the command's streams and environment those of this process, and returns
// its arguments. It ends this process if the worker ended, or does not need it any more.
func await() (argv []string) {
	must("die with the worker", prctl(prSetPdeathsig, uintptr(syscall.SIGKILL), 0))
	text, control := make([]byte, MaxCommand), make([]byte, syscall.CmsgSpace(3*4))
	n, controlled, _, _, err := syscall.Recvmsg(AwaitFD, text, control, syscall.MSG_CMSG_CLOEXEC)
	for err == syscall.EINTR {
		n, controlled, _, _, err = syscall.Recvmsg(AwaitFD, text, control, syscall.MSG_CMSG_CLOEXEC)
	}
	must("receive a command", err)
	if n == 0 { // the other end is closed
		syscall.Exit(0)
	}
	_ = syscall.Close(AwaitFD)
	messages, err := syscall.ParseSocketControlMessage(control[:controlled])
	if err == nil && len(messages) != 1 {
		err = syscall.EBADMSG
	}
	must("receive the streams of a command", err)
	streams, err := syscall.ParseUnixRights(&messages[0])
	must("receive the streams of a command", err)
	for i, fd := range streams {
		must("use the streams of a command", syscall.Dup3(fd, i, 0))
		_ = syscall.Close(fd)
	}
	command, err := DecodeCommand(string(text[:n]))
	must("read a command", err)
	syscall.Clearenv()
	for _, kv := range command.Env {
		name, value := cut(kv, '=')
		_ = syscall.Setenv(name, value)
	}
	return command.Argv
}
