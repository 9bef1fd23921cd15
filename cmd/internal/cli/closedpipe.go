package cli

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// SurviveClosedPipe lets the process continue after the reader of its output has
// ended, such as head -1. The returned writer writes to stdout. If stdout is a closed
// pipe, it calls closed once and drops all further output.
func SurviveClosedPipe(stdout io.Writer, closed func(error)) io.Writer {
	// Catch the signal. If it were ignored, the programs that tools run would also
	// ignore it, and "yes | head" in a shell relies on it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return &pipeWriter{w: stdout, onClosed: closed}
}

type pipeWriter struct {
	w        io.Writer
	onClosed func(error)

	mu     sync.Mutex
	closed bool
}

func (p *pipeWriter) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return len(data), nil
	}
	n, err := p.w.Write(data)
	if errors.Is(err, syscall.EPIPE) {
		p.closed = true
		p.onClosed(err)
		return len(data), nil
	}
	return n, err
}
