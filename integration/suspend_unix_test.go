//go:build unix

package integration

import (
	"os"
	"syscall"
)

func suspend(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) } // it may have ended
func resume(p *os.Process)  { _ = p.Signal(syscall.SIGCONT) }

// printStacks ends a Go program, which prints what its goroutines do.
func printStacks(p *os.Process) { _ = p.Signal(syscall.SIGQUIT) }
