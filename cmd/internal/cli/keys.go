package cli

import (
	"bufio"
	"os"
	"strings"
	"sync"
	"unicode"
)

// The line editor ends a line at each line break, and ignores tabs. So keyFilter replaces
// those that belong to the message by these signs, which the user sees.
var (
	signs = strings.NewReplacer("\n", "⏎", "\t", "⇥")
	texts = strings.NewReplacer("⏎", "\n", "⇥", "\t")
)

const (
	// pasteModeOn has the terminal put pasteStart and pasteEnd around a pasted text.
	pasteModeOn  = "\x1b[?2004h"
	pasteModeOff = "\x1b[?2004l"
	pasteStart   = "[200~" // after Escape
	pasteEnd     = "[201~"
)

// keyFilter passes the keys of a terminal on to the line editor, through a pipe.
type keyFilter struct {
	in, out *os.File

	toPipe  *os.File
	pending strings.Builder

	mu      sync.Mutex
	changed *sync.Cond
	kept    string // keys that are not in the pipe yet
	held    bool   // nobody reads, so the keys stay in kept
	ended   bool   // nothing comes after kept
}

func newKeyFilter(in *os.File) (*keyFilter, error) {
	out, toPipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	f := &keyFilter{in: in, out: out, toPipe: toPipe, held: true}
	f.changed = sync.NewCond(&f.mu)
	go f.pump()
	go f.run() // until the process ends: a read of a terminal cannot be interrupted
	return f, nil
}

// send passes a key to the editor, as if the user had pressed it.
func (f *keyFilter) send(keys string) {
	f.change(func() { f.kept += keys })
}

// hold keeps what is typed until release.
func (f *keyFilter) hold() { f.change(func() { f.held = true }) }

// release passes on what was typed since hold. If it must not be sent before its user has seen the
// question, it has no line ends.
func (f *keyFilter) release(unseen bool) {
	f.change(func() {
		if f.held = false; unseen {
			f.kept = strings.TrimRight(strings.NewReplacer("\r", " ", "\n", " ").Replace(f.kept), " ")
		}
	})
}

func (f *keyFilter) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.changed.Broadcast()
}

// pump writes the keys into the pipe. While the pipe is full, the editor does not read, and nothing else
// waits for the pump.
func (f *keyFilter) pump() {
	defer f.toPipe.Close()
	for {
		f.mu.Lock()
		for f.held || f.kept == "" && !f.ended {
			f.changed.Wait()
		}
		keys := f.kept
		f.kept = ""
		f.mu.Unlock()
		if keys == "" {
			return // the end
		}
		if _, err := f.toPipe.WriteString(keys); err != nil {
			return // the editor is gone
		}
	}
}

func (f *keyFilter) run() {
	defer f.change(func() { f.ended = true })
	r := bufio.NewReader(f.in)
	pasting, last := false, rune(0)
	for {
		if r.Buffered() == 0 {
			f.send(f.pending.String())
			f.pending.Reset()
		}
		key, _, err := r.ReadRune()
		if err != nil {
			return
		}
		if key == '\x1b' && (pasting || r.Buffered() > 0) {
			follows := func(sequence string) bool {
				next, _ := r.Peek(len(sequence))
				return string(next) == sequence
			}
			switch {
			case !pasting && r.Buffered() >= len(pasteStart) && follows(pasteStart), pasting && follows(pasteEnd):
				pasting = !pasting
				_, _ = r.Discard(len(pasteEnd))
				continue
			case !pasting && (follows("\r") || follows("\n")): // Alt+Enter
				_, _ = r.Discard(1)
				f.pending.WriteString(signs.Replace("\n"))
				continue
			}
		}
		switch {
		case key == '\t', pasting && key == '\r', pasting && key == '\n' && last != '\r':
			f.pending.WriteString(signs.Replace(strings.ReplaceAll(string(key), "\r", "\n")))
		case pasting && unicode.IsControl(key): // also the line feed after a carriage return
		default:
			f.pending.WriteRune(key)
		}
		last = key
	}
}
