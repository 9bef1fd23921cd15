package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// ErrInterrupted means that the user pressed Ctrl-C at the prompt.
var ErrInterrupted = errors.New("interrupted")

// Prompt reads messages: on a terminal with line editing and a history, otherwise line
// by line. A backslash at the end of a line continues the message on the next line.
// On a terminal, Alt+Enter inserts a line break, and a pasted text may have several
// lines.
//
// golang.org/x/term costs 0.03 MB. reeflective/readline costs 1.4 MB and needs a terminal
// that reports the position of its cursor; bubbletea imports text/template.
type Prompt struct {
	stdin  io.Reader
	stdout io.Writer

	lines   *bufio.Reader // if stdin is not a terminal
	history history
	editor  *term.Terminal // nil if there is none yet
	tty     *os.File
	keys    *keyReader
	pending chan readMessage // of a Read whose ctx ended; nil if there is none

	mu      sync.Mutex
	reading *term.Terminal // while it edits a line
}

type readMessage struct {
	text string
	err  error
}

// NewPrompt returns a Prompt. It edits lines if stdin and stdout are terminals.
func NewPrompt(stdin io.Reader, stdout io.Writer) *Prompt {
	p := &Prompt{stdin: stdin, stdout: stdout}
	if file, ok := stdin.(*os.File); ok && isatty.IsTerminal(file.Fd()) && IsTerminal(stdout) {
		p.tty, p.keys = file, &keyReader{in: file}
	} else {
		p.lines = bufio.NewReader(stdin)
	}
	return p
}

// Interactive reports whether the prompt edits lines on a terminal.
func (p *Prompt) Interactive() bool { return p.keys != nil }

// Remember adds a message to the history.
func (p *Prompt) Remember(message string) {
	p.history.add(fill(strings.NewReplacer("\n", string(markBreak), "\t", string(markTab)).Replace(strings.TrimSpace(message))))
}

// Read returns the next message, without space around it. It skips empty ones. Its
// error is io.EOF at the end of the input, ErrInterrupted, or that of ctx.
func (p *Prompt) Read(ctx context.Context) (string, error) {
	restore := func() {}
	if p.Interactive() {
		var err error
		if restore, err = p.startEditor(); err != nil {
			return "", err
		}
	}
	defer restore()
	if p.pending == nil {
		messages := make(chan readMessage, 1)
		p.pending = messages
		go func() { // a read of a terminal cannot be interrupted; if ctx ends, the next Read continues it
			text, err := p.read()
			messages <- readMessage{text, err}
		}()
	}
	select {
	case m := <-p.pending:
		p.pending = nil
		p.Remember(m.text)
		return m.text, m.err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reading != nil {
			_, _ = p.reading.Write(screenOff) // removes the prompt and what the user has typed
			p.reading = nil
		}
		return "", ctx.Err()
	}
}

// Writer returns a writer to w. If w is a terminal, what it writes appears above the line
// that the user edits, if there is one.
func (p *Prompt) Writer(w io.Writer) io.Writer { return promptWriter{w, p} }

type promptWriter struct {
	io.Writer
	prompt *Prompt
}

func (w promptWriter) Write(data []byte) (int, error) {
	w.prompt.mu.Lock()
	defer w.prompt.mu.Unlock()
	if w.prompt.reading != nil && IsTerminal(w.Writer) {
		return w.prompt.reading.Write(data)
	}
	return w.Writer.Write(data)
}

// read reads lines until a message is complete.
func (p *Prompt) read() (string, error) {
	var lines []string
	for {
		line, continues, err := p.readLine(len(lines) > 0)
		if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
			if text := join(lines); text != "" && errors.Is(err, io.EOF) {
				return text, nil
			}
			return "", err
		}
		rest, escaped := strings.CutSuffix(line, `\`)
		if escaped {
			line = rest
		}
		lines = append(lines, line)
		if (escaped || continues) && err == nil {
			continue
		}
		if text := join(lines); text != "" {
			return text, nil
		}
		lines = nil
	}
}

func join(lines []string) string {
	unmark := strings.NewReplacer(string(markBreak), "\n", string(markTab), "\t", string(markFill), "")
	return strings.TrimSpace(unmark.Replace(strings.Join(lines, "\n")))
}

// readLine reads one line. continues means that it is a line of a pasted text.
func (p *Prompt) readLine(more bool) (line string, continues bool, err error) {
	if p.lines != nil {
		line, err = p.lines.ReadString('\n')
		return strings.TrimRight(line, "\r\n"), false, err
	}
	p.editor.SetPrompt("> ")
	if more {
		p.editor.SetPrompt("… ")
	}
	line, err = p.editor.ReadLine()
	line, continues = strings.CutSuffix(line, string(markMore))
	if errors.Is(err, term.ErrPasteIndicator) {
		return line, continues, nil
	}
	if errors.Is(err, io.EOF) && p.keys.interrupted {
		p.keys.interrupted = false
		p.editor = nil // it would return the same key again
		_, _ = io.WriteString(p.stdout, "^C\r\n")
		return "", false, ErrInterrupted
	}
	return line, continues, err
}

// startEditor lets the terminal pass keys on as they are pressed, until restore.
func (p *Prompt) startEditor() (restore func(), err error) {
	fd := int(p.tty.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("read from the terminal: %w", err)
	}
	if p.editor == nil {
		p.editor = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{p.keys, &screenWriter{Writer: p.stdout}}, "> ")
		p.editor.AutoCompleteCallback = p.keys.editKey
		p.editor.History = &p.history
	}
	if width, height, err := term.GetSize(fd); err == nil && width > 0 && height > 0 {
		_ = p.editor.SetSize(width, height) // fails only if the terminal is gone
	}
	_, _ = io.WriteString(p.stdout, pasteModeOn)
	editor := p.editor
	p.mu.Lock()
	p.reading = editor
	p.mu.Unlock()
	if p.pending != nil {
		_, _ = editor.Write(screenOn) // shows the prompt again, with what the user has typed
	}
	return func() {
		p.mu.Lock()
		p.reading = nil
		p.mu.Unlock()
		_, _ = io.WriteString(p.stdout, pasteModeOff)
		_ = term.Restore(fd, state) // fails only if the terminal is gone
	}, nil
}

// history implements term.History; the newest entry is the last.
type history struct{ entries []string }

const maxHistory = 500

// Add does nothing: the editor adds lines, and Prompt remembers messages.
func (h *history) Add(string) {}

func (h *history) add(entry string) {
	if entry == "" || len(h.entries) > 0 && h.entries[len(h.entries)-1] == entry {
		return
	}
	h.entries = append(h.entries, entry)
	if len(h.entries) > maxHistory {
		h.entries = slices.Delete(h.entries, 0, 1)
	}
}

func (h *history) Len() int { return len(h.entries) }

func (h *history) At(i int) string { return h.entries[len(h.entries)-1-i] }
