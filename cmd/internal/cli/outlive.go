package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Outlive makes a process that works for others outlive who reads what it prints,
// as head -1 does: a write to a closed pipe fails from now on, and no longer ends
// the process. What it returns writes to stdout, until that is so; then it calls
// gone, once, and takes and drops the rest, as /dev/null does.
func Outlive(stdout io.Writer, gone func(error)) io.Writer {
	// Caught, not ignored: what is ignored stays so in the programs that tools
	// run, and "yes | head" in a shell relies on the signal. Nobody needs it here.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return &outliving{w: stdout, gone: gone}
}

type outliving struct {
	w    io.Writer
	gone func(error)

	mu     sync.Mutex
	closed bool
}

func (o *outliving) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return len(p), nil
	}
	n, err := o.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.closed = true
		o.gone(err)
		return len(p), nil
	}
	return n, err
}
