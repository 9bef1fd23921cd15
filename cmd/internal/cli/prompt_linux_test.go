package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// typist types on a terminal and sees its screen.
type typist struct {
	*Prompt
	screen *os.File
	output chan string // what the program writes
}

func newTypist(t *testing.T) typist {
	t.Helper()
	screen, program := openTerminal(t)
	t.Cleanup(func() { program.Close() })
	if err := screen.SetDeadline(time.Time{}); err != nil {
		t.Skip("no deadlines on a terminal: ", err)
	}
	p := typist{NewPrompt(program, program), screen, make(chan string, 10_000)}
	if !p.Interactive() {
		t.Fatal("the prompt does not edit lines on a terminal")
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := screen.Read(buf)
			if err != nil {
				close(p.output)
				return
			}
			p.output <- string(buf[:n])
		}
	}()
	return p
}

// read types keys at the prompt and returns what the program reads and what the screen
// shows until then.
func (p typist) read(t *testing.T, keys string) (message, shown string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() {
		message, err = p.Read(ctx)
		close(done)
	}()
	for ended := false; !ended && !strings.Contains(shown, "> "); { // from now on, the terminal is raw
		select {
		case s := <-p.output:
			shown += s
		case <-done:
			if ended = true; keys != "" {
				t.Fatalf("the prompt read %q, %v before a key was pressed", message, err)
			}
		}
	}
	if _, err := io.WriteString(p.screen, keys); err != nil {
		t.Fatal(err)
	}
	<-done
	for {
		if strings.HasSuffix(shown, "\x1b[?2004l") { // the prompt has ended
			return message, shown, err
		}
		shown += <-p.output
	}
}

// A message is what the user typed and pasted, whatever keys edit it.
func TestPromptOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	lines := strings.TrimSpace(strings.Repeat("a line of 漢字 and \"text\"\n", 4000))
	for name, test := range map[string]struct{ keys, want string }{
		"backslash":               {"first\\\rsecond\r", "first\nsecond"},
		"Alt+Enter":               {"first\x1b\rsecond\r", "first\nsecond"},
		"tab":                     {"a\tb\r", "a\tb"},
		"Backspace over wide":     {"漢字🎉\x7f\x7fx\r", "漢x"},
		"arrows over wide":        {"漢字\x1b[D\x1b[Da\x1b[Cb\r", "a漢b字"},
		"Delete wide":             {"漢字\x01\x1b[3~\r", "字"},
		"Ctrl-D within a line":    {"漢字\x01\x04\r", "字"},
		"Home and End":            {"b\x1b[1~a\x1b[4~d\x1bOH_\x1bOF_\r", "_abd_"},
		"Escape":                  {"a\x1bhello\r", "ahello"},
		"other keys":              {"a\x1b[15~\x1b[2;5~b\r", "ab"},
		"long line":               {strings.Repeat("x", 20_000) + "\r", strings.Repeat("x", 20_000)},
		"paste":                   {"\x1b[200~a\r\n\tb\n\n c\x1b[201~\r", "a\n\tb\n\n c"},
		"paste after text":        {"explain: \x1b[200~a\nb\x1b[201~, please\r", "explain: a\nb, please"},
		"paste of 100 KB":         {"\x1b[200~" + lines + "\x1b[201~\r", lines},
		"paste of one long line":  {"\x1b[200~" + strings.Repeat("é🎉", 20_000) + "\x1b[201~\r", strings.Repeat("é🎉", 20_000)},
		"paste of control codes":  {"\x1b[200~a\x03\x04\x1b[31mb\x1b\x00\x07\x1b[201~\r", "a[31mb"},
		"invalid bytes":           {"a\xffb\ufffdc\r", "a?b?c"},
		"characters that we use":  {"a\U0010fff0\U0010fff3\U0010fff8b\r", "a???b"},
		"endless escape sequence": {"a\x1b[" + strings.Repeat("1;", 200) + "mb\r", "a[" + strings.Repeat("1;", 200) + "mb"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTypist(t)
			if got, _, err := p.read(t, test.keys); got != test.want || err != nil {
				t.Fatalf("the prompt read %q, %v; want %q", excerpt(got), err, excerpt(test.want))
			}
			if got, _, err := p.read(t, "\x1b[A\r"); got != test.want || err != nil {
				t.Errorf("the history has %q, %v; want %q", excerpt(got), err, excerpt(test.want))
			}
		})
	}
}

// excerpt shortens a message for an error.
func excerpt(s string) string {
	if len(s) > 200 {
		return s[:100] + "..." + s[len(s)-100:] + " (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return s
}

// Ctrl-C drops the line, Ctrl-D ends the input, and neither is mistaken for the other.
func TestPromptKeysThatEnd(t *testing.T) {
	t.Setenv("TERM", "xterm")
	p := newTypist(t)
	for _, test := range []struct {
		keys, want string
		err        error
	}{
		{"dropped\x03", "", ErrInterrupted},
		{"\x1b[200~a\x03b\x1b[201~\r", "ab", nil},
		{"dropped\x03kept\r", "", ErrInterrupted},
		{"", "kept", nil}, // typed before the prompt
		{"a\\\rb\x03", "", ErrInterrupted},
		{"\x04", "", io.EOF},
	} {
		got, _, err := p.read(t, test.keys)
		if got != test.want || !errors.Is(err, test.err) {
			t.Fatalf("after the keys %q, the prompt read %q, %v; want %q, %v", test.keys, got, err, test.want, test.err)
		}
	}
}

// What the program writes appears above the line that the user edits. A Read that ends
// before the line removes the prompt, and the next one shows it again.
func TestOutputAboveThePrompt(t *testing.T) {
	t.Setenv("TERM", "xterm")
	p := newTypist(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := p.Read(ctx)
		done <- err
	}()
	await := func(want string) {
		t.Helper()
		limit := time.After(time.Minute)
		for shown := ""; !strings.Contains(shown, want); {
			select {
			case text := <-p.output:
				shown += text
			case <-limit:
				t.Fatalf("the screen shows %q, not %q", shown, want)
			}
		}
	}
	out := p.Writer(p.tty)
	if !IsTerminal(out) {
		t.Error("the writer hides that it writes to a terminal")
	}
	write := func(w io.Writer, text string) {
		t.Helper()
		if n, err := io.WriteString(w, text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	await("> ")
	write(out, "one\ntwo\n")
	await("\x1b[2D\x1b[Kone\r\ntwo\r\n> ")
	var file bytes.Buffer
	write(p.Writer(&file), "three\n")
	if file.String() != "three\n" {
		t.Errorf("the file has %q", file.String())
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	await("\x1b[2D\x1b[K")
	write(out, "four\n")
	await("four\r\n")
	message, shown, err := p.read(t, "hello\r")
	if message != "hello" || err != nil || !strings.Contains(shown, "> ") {
		t.Errorf("the prompt read %q, %v, and shows %q", message, err, shown)
	}
}

// A Read that ends before the line leaves nothing of the prompt and of what the user has
// typed on the screen, also if that has several lines. The next Read shows all of it again,
// and erases nothing else.
func TestInterruptedPrompt(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, typed := range []string{"hello", "漢字", strings.Repeat("x", 200)} {
		p := newTypist(t)
		s := &screen{lines: map[int][]rune{}}
		interrupt := func(keys string) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := p.Read(ctx)
				done <- err
			}()
			s.await(t, p, func() bool { return strings.HasPrefix(s.text(), ">") })
			if _, err := io.WriteString(p.screen, keys); err != nil {
				t.Fatal(err)
			}
			s.await(t, p, func() bool { return strings.ReplaceAll(s.text(), "\n", "") == "> "+typed })
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			s.await(t, p, func() bool { return strings.HasSuffix(s.written, "\x1b[?2004l") })
			if s.text() != "" || s.x != 0 {
				t.Errorf("after %q, the screen shows %q with the cursor in column %d", typed, s.text(), s.x)
			}
		}
		interrupt(typed)
		above := "a line of the program"
		s.lines[s.y], s.y = []rune(above), s.y+1
		s.top = s.y
		interrupt("")
		if got := string(s.lines[s.top-1]); got != above {
			t.Errorf("after %q, the line above is %q", typed, got)
		}
		if message, _, err := p.read(t, "!\r"); message != typed+"!" || err != nil {
			t.Errorf("the prompt read %q, %v", message, err)
		}
	}
}

var moves = regexp.MustCompile(`\x1b\[(\d*)([CD])|\x1b\[\??\d*[a-z]`)

// The cursor is where the next character appears, also after wide characters.
func TestPromptCursor(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for _, keys := range []string{"漢字🎉x", "漢字🎉\x7f", "漢字\x1b[D", "漢字\x1b[Da", "漢字\x1b[D\x1b[D\x1b[3~b", "a漢\x01漢\x1b[C"} {
		p := newTypist(t)
		_, shown, err := p.read(t, keys+"\x03")
		if err != ErrInterrupted {
			t.Fatal(err)
		}
		shown, _, _ = strings.Cut(shown, "^C")
		screen, x := make([]rune, 40), 0
		for len(shown) > 0 {
			if m := moves.FindStringSubmatchIndex(shown); m != nil && m[0] == 0 {
				move := moves.FindStringSubmatch(shown)
				n, _ := strconv.Atoi(move[1])
				switch move[2] {
				case "C":
					x += max(n, 1)
				case "D":
					x -= max(n, 1)
				}
				shown = shown[m[1]:]
				continue
			}
			r, n := utf8.DecodeRuneInString(shown)
			shown = shown[n:]
			screen[x] = r
			if x++; isWide(r) {
				screen[x] = 0
				x++
			}
		}
		want := map[string]struct {
			line   string
			column int
		}{
			"漢字🎉x": {"漢字🎉x", 7}, "漢字🎉\x7f": {"漢字", 4}, "漢字\x1b[D": {"漢字", 2}, "漢字\x1b[Da": {"漢a字", 3},
			"漢字\x1b[D\x1b[D\x1b[3~b": {"b字", 1}, "a漢\x01漢\x1b[C": {"漢a漢", 3},
		}[keys]
		line := strings.TrimRight(strings.ReplaceAll(string(screen), "\x00", ""), " ")
		if line != "> "+want.line || x != 2+want.column {
			t.Errorf("%q: the screen shows %q with the cursor in column %d; want %q, %d", keys, line, x, "> "+want.line, 2+want.column)
		}
	}
}
