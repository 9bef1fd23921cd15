package channel

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/state/durable"
	"github.com/stevedore-bus/stevedore/tools"
)

// File appends notifications to a file: as lines of JSON if its name ends in
// .jsonl, otherwise as indented text below a line with the source. A notification
// is on disk when Send returns. The file may be moved at any time.
type File struct {
	path string
	mu   sync.Mutex // a failed append removes what follows its start
}

// NewFile returns a channel that appends to the file at path. Send creates the
// file with mode 0600.
func NewFile(path string) *File { return &File{path: path} }

// Send appends n. After a crash, the file may contain n twice, the first time
// incomplete.
func (f *File) Send(_ context.Context, n Notification) error {
	line, err := f.format(n)
	if err != nil {
		return consume.Reject(consume.CodeUndecodable, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := durable.AppendFile(f.path, line, 0o600); err != nil {
		return fmt.Errorf("append notification to %q: %w", f.path, err)
	}
	return nil
}

func (f *File) format(n Notification) ([]byte, error) {
	if filepath.Ext(f.path) == ".jsonl" {
		line, err := bus.Encode(n)
		return append(line, '\n'), err
	}
	return fmt.Appendf(nil, "[%s] %s\n%s\n\n", n.At.Local().Format(time.DateTime), heading(n), indent(tools.Escape(n.Text))), nil
}

// indent indents the lines of a text, so that none of them looks like the first
// line of another notification.
func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
