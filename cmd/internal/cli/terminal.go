package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mattn/go-isatty"

	"github.com/stevedore-bus/stevedore/tools"
)

// Main runs a program with the arguments and files of the process, and exits.
func Main(run Program) {
	os.Exit(RunOn(signalContext(), run, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Program is the main function of a program. It returns the exit status.
type Program func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// RunOn runs a program. What the program writes to a terminal has no control characters, which could
// take the terminal over: names and texts come from files, servers and models. Elsewhere the output
// stays as it is.
func RunOn(ctx context.Context, run Program, args []string, stdin io.Reader, stdout, stderr *os.File) int {
	out, err := onTerminal(stdout), onTerminal(stderr)
	code := run(ctx, args, stdin, out, err)
	for _, w := range []io.Writer{out, err} {
		if s, ok := w.(*screen); ok {
			s.flush()
		}
	}
	return code
}

// screen is a terminal that shows control characters as text.
type screen struct {
	file *os.File

	mu   sync.Mutex
	rest string // the begin of a character or line break, of which the next write has the rest
}

func onTerminal(f *os.File) io.Writer {
	if !isatty.IsTerminal(f.Fd()) {
		return f
	}
	return &screen{file: f}
}

// Write implements io.Writer.
func (s *screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.rest + string(data)
	end := wholeCharacters(text)
	s.rest = text[end:]
	if _, err := io.WriteString(s.file, tools.Escape(text[:end])); err != nil {
		return 0, err
	}
	return len(data), nil
}

// wholeCharacters returns the length of text without an incomplete character or line break at
// its end.
func wholeCharacters(text string) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if text[i] == '\r' || !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

func (s *screen) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.file, tools.Escape(s.rest)) // fails only if the terminal is gone
	s.rest = ""
}

// Raw returns the writer for what a terminal must interpret: what this program itself has it do,
// and the output of a command that the user runs.
func Raw(w io.Writer) io.Writer {
	switch w := w.(type) {
	case *screen:
		return w.file
	case wideWriter:
		return Raw(w.Writer)
	case promptWriter:
		return promptWriter{Raw(w.Writer), w.prompt}
	}
	return w
}

// Note writes lines about what happens, in the faint style if w is a terminal that shows styles.
func Note(w io.Writer, format string, args ...any) {
	text := tools.Escape(strings.TrimSpace(fmt.Sprintf(format, args...)))
	if ShowsStyles(w) {
		w, text = Raw(w), "\x1b[2m"+text+"\x1b[0m"
	}
	_, _ = io.WriteString(w, text+"\n") // it is lost if w is closed
}

// ShowsStyles reports whether w is a terminal that shows styles, and its user wants them.
func ShowsStyles(w io.Writer) bool {
	return IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	switch w := w.(type) {
	case *screen:
		return true
	case wideWriter:
		return IsTerminal(w.Writer)
	case promptWriter:
		return IsTerminal(w.Writer)
	case *pipeWriter:
		return IsTerminal(w.w)
	case *os.File:
		return isatty.IsTerminal(w.Fd())
	}
	return false
}
