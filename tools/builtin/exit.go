package builtin

import (
	"os"
	"syscall"
)

// exitCode returns the exit code as shells do: 128 plus the signal if a signal ended
// the process.
func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
