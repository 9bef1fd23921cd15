package notify

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// Console writes notifications to a terminal, or to whatever w is.
type Console struct {
	mu sync.Mutex
	w  io.Writer
}

// NewConsole returns a channel that writes to w, in one piece per notification.
func NewConsole(w io.Writer) *Console { return &Console{w: w} }

// Send writes n. Nothing in it can change what the terminal shows elsewhere, and
// its lines are moved in below the first, so that none looks like one of the log.
func (c *Console) Send(_ context.Context, n Notification) error {
	text := heading(n) + "\n" + indent(ends(strings.TrimRight(tools.Escape(n.Text), "\n"))) + "\n"
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.w, text); err != nil {
		return fmt.Errorf("write to the console: %w", err)
	}
	return nil
}

// subSession is the session of a sub-agent that a session of the user started.
// One deeper has a hash instead of the name, which begins with h_.
var subSession = regexp.MustCompile(`^sub/([A-Za-z0-9_-]{1,64})/[A-Za-z0-9_-]{1,64}$`)

// heading says in one line where a notification comes from.
func heading(n Notification) string {
	parts := []string{"»"}
	if n.IsError {
		parts = append(parts, "failed:")
	}
	if n.Tool != "" {
		parts = append(parts, tools.EscapeLine(n.Tool))
	}
	if m := subSession.FindStringSubmatch(n.Session); m != nil && !strings.HasPrefix(m[1], "h_") {
		parts = append(parts, "in session "+m[1]+", by a sub-agent")
	} else if n.Session != "" {
		parts = append(parts, "in session "+tools.EscapeLine(n.Session))
	}
	if len(parts) == 1 {
		parts = append(parts, "message")
	}
	if n.Note != "" {
		parts = append(parts, "("+tools.EscapeLine(n.Note)+")")
	}
	return strings.Join(parts, " ")
}

// consoleLines and consoleBytes bound what the console shows of a notification at
// each end: it is watched, and a long one would bury the others.
const (
	consoleLines = 10
	consoleBytes = 4 << 10
)

// leftOutHere has no number: a tool, or the way through the bus, may have left out
// more of the text before it came here.
const leftOutHere = "[... what stands between is not shown here ...]"

// ends leaves out the middle of a long text, and says so.
func ends(text string) string {
	from, to := headEnd(text), tailStart(text)
	if to-from <= len(leftOutHere) {
		return text
	}
	return strings.TrimSuffix(text[:from], "\n") + "\n" + leftOutHere + "\n" + text[to:]
}

// headEnd returns where the part of a text ends that is shown before its middle.
func headEnd(text string) int {
	end := 0
	for range consoleLines {
		next := strings.IndexByte(text[end:], '\n') + 1
		if next == 0 || end+next > consoleBytes {
			// A line that does not fit is shown as far as it does.
			end = min(len(text), consoleBytes)
			for end < len(text) && !utf8.RuneStart(text[end]) {
				end--
			}
			return end
		}
		end += next
	}
	return end
}

// tailStart returns where the part begins that is shown after the middle.
func tailStart(text string) int {
	start := len(text)
	for range consoleLines {
		line := strings.LastIndexByte(text[:max(start-1, 0)], '\n') + 1
		if len(text)-line > consoleBytes {
			start = len(text) - consoleBytes
			for start < len(text) && !utf8.RuneStart(text[start]) {
				start++
			}
			return start
		}
		start = line
	}
	return start
}
