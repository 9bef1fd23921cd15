package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signalContext returns a context that is cancelled at the first interrupt, SIGTERM
// or SIGHUP (unless nohup ignores it). The second signal ends the process immediately,
// with the exit code that shells use. A SIGHUP never counts as the second signal: a
// terminal may send several when it closes, and systemd may send one after a SIGTERM.
func signalContext() context.Context {
	caught := new(interrupts)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), interruptsKey{}, caught))
	watched := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		watched = append(watched, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, watched...)
	go func() { // until the process ends
		asked := false
		for s := range signals {
			if s == os.Interrupt && caught.send() {
				continue
			}
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

type interruptsKey struct{}

// interrupts are the interrupts that a command handles itself.
type interrupts struct {
	mu       sync.Mutex
	received chan struct{} // nil if no command handles them
}

// CatchInterrupts returns a channel that gets the interrupts (Ctrl-C) until release is
// called. They do not end the context of SignalContext. One command may do so at a time.
func CatchInterrupts(ctx context.Context) (received chan struct{}, release func()) {
	caught, ok := ctx.Value(interruptsKey{}).(*interrupts)
	if !ok { // a test
		caught = new(interrupts)
	}
	caught.mu.Lock()
	defer caught.mu.Unlock()
	caught.received = make(chan struct{}, 1)
	return caught.received, func() {
		caught.mu.Lock()
		defer caught.mu.Unlock()
		caught.received = nil
	}
}

// send reports whether a command handles interrupts.
func (i *interrupts) send() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.received == nil {
		return false
	}
	select {
	case i.received <- struct{}{}:
	default: // the command has not handled the last one yet
	}
	return true
}
