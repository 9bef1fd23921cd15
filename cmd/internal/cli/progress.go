package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
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
	line := &progressLine{w: Raw(w), columns: func() int { return widthOf(w) }}
	select {
	case <-p.stop:
		return
	case <-time.After(showAfter):
	}
	bar := progressbar.NewOptions64(bytes, progressbar.OptionSetWriter(line), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(24),
		progressbar.OptionSetTheme(progressbar.ThemeASCII), progressbar.OptionSpinnerCustom([]string{"|", "/", "-", `\`}),
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(bytes > 0), progressbar.OptionShowBytes(bytes > 0),
		progressbar.OptionUseANSICodes(true))
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		// Errors are those of a terminal that is gone.
		line.unfold()
		if bytes > 0 {
			_ = bar.Set64(min(p.bytes.Load(), bytes-1)) // at the end, the bar would begin a line
		} else {
			_ = bar.Add(1)
		}
		select {
		case <-p.stop:
			line.unfold()
			_, _ = io.WriteString(line.w, "\r\x1b[2K")
			return
		case <-ticker.C:
		}
	}
}

// progressLine is one row of a terminal: what does not fit is not shown, because the next change
// could not remove a second row.
type progressLine struct {
	w       io.Writer
	columns func() int
	width   int // of what the row shows
}

func (l *progressLine) Write(data []byte) (int, error) {
	shown := string(data)
	if i := strings.LastIndexByte(shown, '\r'); i >= 0 {
		l.width, shown = 0, shown[i+1:]
	}
	l.width = min(l.width+text.StringWidthWithoutEscSequences(shown), l.columns())
	_, err := fmt.Fprintf(l.w, "\x1b[?7l%s\x1b[?7h", data)
	return len(data), err
}

// unfold removes the rows above the cursor that the line has since the terminal became narrower.
func (l *progressLine) unfold() {
	if columns := l.columns(); columns > 0 && l.width > columns {
		fmt.Fprintf(l.w, "\x1b[%dA\r\x1b[J", (l.width-1)/columns)
		l.width = 0
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
