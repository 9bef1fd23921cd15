package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"
	"github.com/mattn/go-runewidth"
	"github.com/peterh/liner"
	"golang.org/x/term"
)

// ErrInterrupted means that the user pressed Ctrl-C at the prompt.
var ErrInterrupted = errors.New("interrupted")

// Prompt reads messages: on a terminal with line editing and a history, otherwise line
// by line. A backslash at the end of a line continues the message on the next line.
// On a terminal, Alt+Enter inserts a line break, and a pasted text may have several
// lines. On Windows, the console edits lines itself.
//
// peterh/liner edits the line, because it keeps U+200C and U+200D and counts the columns of wide
// characters; reeflective/readline 1.3 loses joined emoji and what is typed after Ctrl-C.
type Prompt struct {
	stdout io.Writer
	lines  *bufio.Reader // if stdin is not a terminal
	read   chan readLine // of a Read whose ctx ended; nil if there is none
	editor *liner.State
	keys   *keyFilter // nil if there is no editor

	mu      sync.Mutex
	changed *sync.Cond // editing or writers has changed
	editing bool       // the editor has the terminal
	paused  bool       // the editor is about to give it back
	writers int        // that wait for the terminal
	draft   string     // what the user had typed before the pause
}

type readLine struct {
	line string
	err  error
}

// NewPrompt returns a Prompt. It edits lines if stdin and stdout are terminals.
func NewPrompt(stdin io.Reader, stdout io.Writer) *Prompt {
	p := &Prompt{stdout: Raw(stdout)}
	p.changed = sync.NewCond(&p.mu)
	if file, ok := stdin.(*os.File); ok && canEdit(file) && IsTerminal(stdout) {
		if keys, err := newKeyFilter(file); err == nil {
			p.keys = keys
			return p
		}
	}
	p.lines = bufio.NewReader(stdin)
	return p
}

// canEdit reports whether the line editor works on a terminal.
func canEdit(file *os.File) bool {
	if file != os.Stdin || runtime.GOOS == "windows" || !isatty.IsTerminal(file.Fd()) || !liner.TerminalSupported() {
		return false
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	return err == nil && columns >= minColumns
}

// minColumns is the width of the prompt and of what the editor needs beside it.
const minColumns = 12

// Interactive reports whether the prompt edits lines on a terminal.
func (p *Prompt) Interactive() bool { return p.keys != nil }

// Close gives the terminal back.
func (p *Prompt) Close() {
	if p.editor != nil {
		_, _ = io.WriteString(p.stdout, pasteModeOff)
		_ = p.editor.Close() // fails only if the terminal is gone
	}
}

// Remember adds a message to the history.
func (p *Prompt) Remember(message string) {
	if message = strings.TrimSpace(message); p.Interactive() && message != "" {
		p.startEditor()
		p.editor.AppendHistory(signs.Replace(message))
	}
}

func (p *Prompt) startEditor() {
	if p.editor != nil {
		return
	}
	os.Stdin = p.keys.out // of which the editor makes its reader
	p.editor = liner.NewLiner()
	os.Stdin = p.keys.in
	p.editor.SetCtrlCAborts(true)
	p.editor.SetMultiLineMode(true) // a long line continues on the next row
	_, _ = io.WriteString(p.stdout, pasteModeOn)
}

// Read returns the next message, without space around it. It skips empty ones. Its
// error is io.EOF at the end of the input, ErrInterrupted, or that of ctx.
func (p *Prompt) Read(ctx context.Context) (string, error) { return p.readMessage(ctx, false) }

func (p *Prompt) readMessage(ctx context.Context, answer bool) (string, error) {
	var lines []string
	for {
		line, err := p.readLine(ctx, len(lines) > 0, answer)
		if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
			if text := join(lines); text != "" && errors.Is(err, io.EOF) {
				return text, nil
			}
			return "", err
		}
		line, continues := strings.CutSuffix(line, `\`)
		lines = append(lines, line)
		if continues && err == nil {
			continue
		}
		if text := join(lines); text != "" {
			p.Remember(text)
			return text, nil
		}
		lines = nil
	}
}

// ReadAnswer is Read for the answer to a question. On a terminal, what the user typed before he saw the
// question is a text that he can edit, and no answer.
func (p *Prompt) ReadAnswer(ctx context.Context) (string, error) { return p.readMessage(ctx, true) }

func join(lines []string) string { return strings.TrimSpace(strings.Join(lines, "\n")) }

func (p *Prompt) readLine(ctx context.Context, more, answer bool) (string, error) {
	if p.keys != nil {
		return p.edit(ctx, more, answer)
	}
	if p.read == nil {
		read := make(chan readLine, 1)
		p.read = read
		go func() { // a read cannot be interrupted; if ctx ends, the next Read continues it
			line, err := p.lines.ReadString('\n')
			read <- readLine{strings.TrimRight(line, "\r\n"), err}
		}()
	}
	select {
	case r := <-p.read:
		p.read = nil
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// edit lets the user edit a line. While somebody writes to the terminal, the line is gone
// from it.
func (p *Prompt) edit(ctx context.Context, more, answer bool) (string, error) {
	p.startEditor()
	p.keys.release(answer)
	defer p.keys.hold()
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pause()
	})()
	prompt := "> "
	if more {
		prompt = "… "
	}
	for {
		p.mu.Lock()
		for p.writers > 0 {
			p.changed.Wait()
		}
		if ctx.Err() != nil {
			p.mu.Unlock()
			return "", ctx.Err()
		}
		p.editing = true
		p.mu.Unlock()
		line, err := p.editor.PromptWithSuggestion(prompt, p.draft, -1)
		p.mu.Lock()
		paused := p.paused && err == nil
		p.draft = ""
		if paused {
			p.draft = line
			p.erase(prompt + line)
		}
		p.editing, p.paused = false, false
		p.changed.Broadcast()
		p.mu.Unlock()
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			return "", ErrInterrupted
		case err != nil || !paused:
			return texts.Replace(line), err
		}
	}
}

// pause makes the editor return what the user has typed. The caller holds mu.
func (p *Prompt) pause() {
	if p.editing && !p.paused {
		p.paused = true
		p.keys.send("\r")
	}
}

// erase removes the rows of a line that the editor has left.
func (p *Prompt) erase(line string) {
	rows := 1
	if columns, _, err := term.GetSize(int(p.keys.in.Fd())); err == nil && columns > 0 {
		rows += (max(runewidth.StringWidth(line), 1) - 1) / columns
	}
	fmt.Fprintf(p.stdout, "\x1b[%dA\r\x1b[J", rows)
}

// Writer returns a writer to w. If w is a terminal, what it writes appears above the line
// that the user edits, if there is one.
func (p *Prompt) Writer(w io.Writer) io.Writer { return promptWriter{w, p} }

type promptWriter struct {
	io.Writer
	prompt *Prompt
}

func (w promptWriter) Write(data []byte) (int, error) {
	p := w.prompt
	p.mu.Lock()
	defer p.mu.Unlock()
	if IsTerminal(w.Writer) {
		p.writers++
		for p.pause(); p.editing; {
			p.changed.Wait()
		}
		defer func() { p.writers--; p.changed.Broadcast() }()
	}
	return w.Writer.Write(data)
}
