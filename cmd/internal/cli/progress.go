package cli

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

const (
	// showAfter is how long an operation may take before its progress appears.
	showAfter = 500 * time.Millisecond
	// progressInterval is the time between two changes on the terminal.
	progressInterval = 100 * time.Millisecond
)

// Progress shows on a terminal that a long operation is working and how far it is. It
// shows nothing elsewhere, and nothing if the operation ends quickly. It disappears when
// the operation ends. It has no colours. All methods of a nil Progress do nothing.
type Progress struct {
	bytes   atomic.Int64
	stop    chan struct{}
	stopped chan struct{}
}

// StartProgress begins to show an operation on w, the standard error of a command. bytes
// is the size of the operation; -1 shows only that it is working. The caller calls Stop
// before it writes anything else to w.
func StartProgress(w io.Writer, what string, bytes int64) *Progress {
	if !IsTerminal(w) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	p := &Progress{stop: make(chan struct{}), stopped: make(chan struct{})}
	go p.show(w, what, bytes)
	return p
}

func (p *Progress) show(w io.Writer, what string, bytes int64) {
	defer close(p.stopped)
	w = Raw(w)
	select {
	case <-p.stop:
		return
	case <-time.After(showAfter):
	}
	bar := progressbar.NewOptions64(bytes, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(24),
		progressbar.OptionSetTheme(progressbar.ThemeASCII), progressbar.OptionSpinnerCustom([]string{"|", "/", "-", `\`}),
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(bytes > 0), progressbar.OptionShowBytes(bytes > 0),
		progressbar.OptionUseANSICodes(true))
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		// Errors are those of a terminal that is gone.
		if bytes > 0 {
			_ = bar.Set64(min(p.bytes.Load(), bytes-1)) // at the end, the bar would begin a line
		} else {
			_ = bar.Add(1)
		}
		select {
		case <-p.stop:
			_, _ = io.WriteString(w, "\r\x1b[2K")
			return
		case <-ticker.C:
		}
	}
}

// Write counts bytes of the operation, so that a Progress can be a part of io.MultiWriter.
func (p *Progress) Write(data []byte) (int, error) {
	if p != nil {
		p.bytes.Add(int64(len(data)))
	}
	return len(data), nil
}

// Stop removes the progress from the terminal.
func (p *Progress) Stop() {
	if p == nil {
		return
	}
	close(p.stop)
	<-p.stopped
}
