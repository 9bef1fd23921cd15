package channel

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// Console writes notifications to a terminal or another writer.
type Console struct {
	mu sync.Mutex
	w  io.Writer
}

// NewConsole returns a channel that calls w.Write once per notification.
func NewConsole(w io.Writer) *Console { return &Console{w: w} }

// Send writes n without control characters, so that it cannot change the rest of
// the terminal. It indents all lines but the first, so that none looks like a line
// of the log.
func (c *Console) Send(_ context.Context, n Notification) error {
	text := heading(n) + "\n" + indent(shorten(strings.TrimRight(tools.Escape(n.Text), "\n"))) + "\n"
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.w, text); err != nil {
		return fmt.Errorf("write to the console: %w", err)
	}
	return nil
}

// subSession matches the session of a sub-agent that a user's session started. A
// deeper one contains a hash, which begins with h_, instead of the user's session.
var subSession = lazyregexp.New(`^sub/([A-Za-z0-9_-]{1,64})/[A-Za-z0-9_-]{1,64}$`)

// heading returns the source of a notification in one line.
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

// consoleLines and consoleBytes limit the head and the tail of a notification on
// the console, so that a long one does not scroll the others away.
const (
	consoleLines = 10
	consoleBytes = 4 << 10
)

// omitted contains no number, because the tool or the bus may have cut the text
// before.
const omitted = "[... the middle is not shown here ...]"

// shorten replaces the middle of a text of many lines or bytes.
func shorten(text string) string {
	lines := strings.SplitAfter(text, "\n")
	n := min(consoleLines, len(lines))
	head, tail := strings.Join(lines[:n], ""), strings.Join(lines[len(lines)-n:], "")
	head = strings.ToValidUTF8(head[:min(len(head), consoleBytes)], "") // without a part of a character
	tail = strings.ToValidUTF8(tail[max(0, len(tail)-consoleBytes):], "")
	if len(head)+len(omitted)+len(tail) >= len(text) {
		return text
	}
	return strings.TrimSuffix(head, "\n") + "\n" + omitted + "\n" + tail
}
