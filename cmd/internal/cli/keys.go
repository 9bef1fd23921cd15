package cli

import (
	"bytes"
	"io"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// The editor of golang.org/x/term counts one column for each character, cuts a line that
// is typed after 4096 characters, and waits for more after an Escape. So keyReader
// translates the keys, and screenWriter what the editor writes. These private characters
// pass between them; one from the terminal is replaced.
const (
	markBreak  = '\U0010fff0' // a line break in the message; shown as lineBreak
	markTab    = '\U0010fff1' // a tab; shown as tabSign
	markFill   = '\U0010fff2' // the second column of the wide character before it
	markMore   = '\U0010fff8' // the end of a pasted line that is not the last one
	markBack   = '\U0010fff3' // the keys that move over or delete a character; see editKey
	markLeft   = '\U0010fff4'
	markRight  = '\U0010fff5'
	markDelete = '\U0010fff6'
	markEnd    = '\U0010fff7' // Ctrl-D
)

const (
	lineBreak = "⏎"
	tabSign   = "⇥"
)

const (
	keyCtrlC   = 3
	keyEscape  = 27
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	// pasteModeOn has the terminal put these two around a pasted text.
	pasteModeOn  = "\x1b[?2004h"
	pasteModeOff = "\x1b[?2004l"
	// maxSequence is longer than the sequence of any key.
	maxSequence = 32
)

// keys has the sequences that terminals send for the keys that the editor handles.
var keys = map[string]string{
	"\x7f": string(markBack), "\b": string(markBack),
	"\x1b[D": string(markLeft), "\x1bOD": string(markLeft), "\x02": string(markLeft),
	"\x1b[C": string(markRight), "\x1bOC": string(markRight), "\x06": string(markRight),
	"\x1b[3~": string(markDelete), "\x04": string(markEnd),
	"\x1b[A": "\x10", "\x1bOA": "\x10", "\x10": "\x10", "\x1b[B": "\x0e", "\x1bOB": "\x0e", "\x0e": "\x0e",
	"\x1b[H": "\x01", "\x1bOH": "\x01", "\x1b[1~": "\x01", "\x1b[7~": "\x01", "\x01": "\x01",
	"\x1b[F": "\x05", "\x1bOF": "\x05", "\x1b[4~": "\x05", "\x1b[8~": "\x05", "\x05": "\x05",
	"\x1b[1;3D": "\x1b[1;3D", "\x1b[1;5D": "\x1b[1;3D", "\x1b[1;3C": "\x1b[1;3C", "\x1b[1;5C": "\x1b[1;3C",
	"\r": "\r", "\n": "\n", "\x0b": "\x0b", "\x0c": "\x0c", "\x15": "\x15", "\x17": "\x17",
	"\t": string(markTab), "\x1b\r": string(markBreak), "\x1b\n": string(markBreak),
}

// keyReader reads keys for the editor.
type keyReader struct {
	in      io.Reader
	partial []byte // the start of a key
	pending []byte // for the editor
	pasting bool
	last    string // the last key
	// interrupted means that the editor got Ctrl-C, ended that it must get Ctrl-D.
	interrupted, ended bool
}

func (r *keyReader) Read(p []byte) (int, error) {
	if r.ended {
		r.ended = false
		return copy(p, "\x04"), nil
	}
	for len(r.pending) == 0 {
		buf := make([]byte, 4096)
		n, err := r.in.Read(buf)
		if err != nil {
			return 0, err
		}
		if string(r.partial) == "\x1b" && n > 0 && buf[0] == 'O' {
			r.partial = nil // the Escape key and a letter
		}
		r.translate(append(r.partial, buf[:n]...))
	}
	give := r.pending
	if i := bytes.IndexByte(give, keyCtrlC); i == 0 {
		r.interrupted, give = true, give[:1] // the editor drops what it has read after it
	} else if i > 0 {
		give = give[:i]
	}
	n := copy(p, give)
	r.pending = r.pending[n:]
	return n, nil
}

// translate appends the keys in data to pending, and keeps the start of a key in partial.
// The editor gets ordinary characters as a paste, because it limits the others.
func (r *keyReader) translate(data []byte) {
	open := false // a paste of ordinary characters
	add := func(text string, ordinary bool) {
		if ordinary != open && !r.pasting {
			if open = ordinary; open {
				r.pending = append(r.pending, pasteStart...)
			} else {
				r.pending = append(r.pending, pasteEnd...)
			}
		}
		r.pending = append(r.pending, text...)
	}
	r.partial = nil
	for len(data) > 0 {
		n := keyLength(data)
		if n == 0 {
			r.partial = bytes.Clone(data)
			break
		}
		if r.pasting && data[0] == keyEscape && string(data[:n]) != pasteEnd {
			n = 1 // the rest is text
		}
		key, last := string(data[:n]), r.last
		data, r.last = data[n:], key
		switch {
		case key == pasteStart && !r.pasting:
			add(key, false)
			r.pasting = true
		case key == pasteEnd && r.pasting:
			r.pending = append(r.pending, key...)
			r.pasting = false
		case r.pasting && key == "\n" && last == "\r":
		case r.pasting && (key == "\r" || key == "\n"):
			add(string(markMore)+"\r", true)
		case r.pasting && key == "\t":
			add(string(markTab), true)
		case key == "\x03" && !r.pasting, keys[key] != "" && !r.pasting:
			if translated, ok := keys[key]; ok {
				key = translated
			}
			add(key, false)
		case key[0] < ' ', key[0] == 0x7f: // other keys
		default:
			add(fill(printable(key)), true)
		}
	}
	add("", false)
}

// keyLength returns how many bytes the first key in data has, or 0 if data ends within it.
func keyLength(data []byte) int {
	switch {
	case data[0] != keyEscape && !utf8.FullRune(data):
		return 0
	case data[0] != keyEscape:
		_, n := utf8.DecodeRune(data)
		return n
	case len(data) == 1:
		return 0
	case data[1] == '\r', data[1] == '\n':
		return 2
	case data[1] != '[' && data[1] != 'O': // the Escape key
		return 1
	}
	for i := 2; i < len(data) && i < maxSequence; i++ {
		if data[i] < ' ' || data[i] > '~' {
			return 1
		}
		if data[i] >= '@' {
			return i + 1
		}
	}
	if len(data) >= maxSequence {
		return 1
	}
	return 0
}

// printable replaces a character that the editor cannot have in a line.
func printable(key string) string {
	if r, _ := utf8.DecodeRuneInString(key); r == utf8.RuneError || r >= markBreak && r <= markMore {
		return "?"
	}
	return key
}

// fill adds the second columns of wide characters.
func fill(text string) string {
	var filled []rune
	for _, r := range text {
		if filled = append(filled, r); isWide(r) {
			filled = append(filled, markFill)
		}
	}
	return string(filled)
}

func isWide(r rune) bool {
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}

// editKey handles the keys that move over or delete a character, which may have two
// columns. It is the AutoCompleteCallback of the editor: pos is a number of bytes.
func (r *keyReader) editKey(line string, pos int, key rune) (newLine string, newPos int, ok bool) {
	before, after := line[:pos], line[pos:]
	_, n := utf8.DecodeLastRuneInString(before)
	if c, m := utf8.DecodeLastRuneInString(before); c == markFill {
		_, n = utf8.DecodeLastRuneInString(before[:len(before)-m])
		n += m
	}
	_, next := utf8.DecodeRuneInString(after)
	if c, m := utf8.DecodeRuneInString(after[next:]); c == markFill {
		next += m
	}
	switch key {
	case markBack:
		return before[:pos-n] + after, pos - n, true
	case markLeft:
		return line, pos - n, true
	case markRight:
		return line, pos + next, true
	case markDelete, markEnd:
		r.ended = key == markEnd && line == ""
		return before + after[next:], pos, true
	case markTab, markBreak:
		return before + string(key) + after, pos + utf8.RuneLen(key), true
	}
	return "", 0, false
}

// These slices (not others with their text), written through the editor, switch a
// screenWriter off and on. The editor removes the line from the screen before it writes,
// and draws it again after that.
var screenOff, screenOn = []byte("off"), []byte("on")

// screenWriter shows the marks of keyReader. While it is off, it shows nothing.
type screenWriter struct {
	io.Writer
	off bool
}

func (w *screenWriter) Write(p []byte) (int, error) {
	is := func(text []byte) bool { return len(p) > 0 && &p[0] == &text[0] }
	if is(screenOff) || is(screenOn) {
		w.off = is(screenOff)
		return len(p), nil
	}
	if w.off {
		return len(p), nil
	}
	shown := p
	for mark, text := range map[rune]string{markBreak: lineBreak, markTab: tabSign, markFill: "", markMore: ""} {
		shown = bytes.ReplaceAll(shown, []byte(string(mark)), []byte(text))
	}
	if _, err := w.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(p), nil
}
