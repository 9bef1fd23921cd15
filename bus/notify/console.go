package notify

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

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
	text := heading(n) + "\n" + indent(someLines(strings.TrimRight(tools.Escape(n.Text), "\n"))) + "\n"
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

// consoleLines is how many lines of a notification the console shows at each
// end: it is watched, and a long one would bury the others.
const consoleLines = 10

// someLines leaves out the middle of a long text, and says so.
func someLines(text string) string {
	lines := strings.Split(text, "\n")
	left := len(lines) - 2*consoleLines
	if left <= 1 {
		return text
	}
	note := fmt.Sprintf("[... %d lines are not shown here ...]", left)
	return strings.Join(slices.Concat(lines[:consoleLines], []string{note}, lines[len(lines)-consoleLines:]), "\n")
}
