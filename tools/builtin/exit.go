package builtin

import (
	"os"
	"syscall"
)

// exitCode is the code of an ended process as shells count: 128 and the signal
// if a signal ended it.
func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
