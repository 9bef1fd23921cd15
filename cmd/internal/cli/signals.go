package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// SignalContext returns a context that is cancelled at the first interrupt, SIGTERM
// or SIGHUP (unless nohup ignores it). The second signal ends the process immediately,
// with the exit code that shells use. A SIGHUP never counts as the second signal: a
// terminal may send several when it closes, and systemd may send one after a SIGTERM.
func SignalContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	watched := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		watched = append(watched, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, watched...)
	go func() { // until the process ends
		asked := false
		for s := range signals {
			if s != syscall.SIGHUP {
				if asked {
					// Do not restore the default action: a shell without job
					// control ignores the signal for background processes.
					os.Exit(128 + int(s.(syscall.Signal)))
				}
				asked = true
			}
			cancel()
		}
	}()
	return ctx
}
