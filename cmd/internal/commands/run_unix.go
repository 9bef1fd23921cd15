//go:build unix

package commands

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn are the signals that the command of "stevedore run" gets.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// keyboard are the signals that a terminal sends to this process and to the command.
var keyboard = []os.Signal{syscall.SIGINT, syscall.SIGQUIT}

// dieLike ends this process by the signal that ended a command, so that the caller sees the
// same. It returns if there was none, or if this process ignores it.
func dieLike(state *os.ProcessState) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return
	}
	signal.Reset(status.Signal())
	if syscall.Kill(os.Getpid(), status.Signal()) == nil && status.Signal() == syscall.SIGKILL {
		select {} // the signal is on its way
	}
}
