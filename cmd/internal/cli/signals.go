package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SignalContext returns a context that ends at the first signal that asks the
// process to end: an interrupt, SIGTERM, or SIGHUP, which a terminal sends when it
// is closed, unless nohup has it ignored. The second one ends the process at once,
// with the exit code that shells give to who dies of it. A SIGHUP is never the
// second one: closing a terminal may send several, and systemd may send one right
// behind a SIGTERM.
func SignalContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	watched := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		watched = append(watched, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, watched...)
	go func() { // as long as the process
		asked := false
		for s := range signals {
			if s != syscall.SIGHUP {
				if asked {
					// Not by giving the signal back to the system, which
					// ignores it where a shell without job control started
					// this process in the background.
					os.Exit(128 + int(s.(syscall.Signal)))
				}
				asked = true
			}
			cancel()
		}
	}()
	return ctx
}
