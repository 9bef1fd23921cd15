package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// promptChild is the variable that makes this test binary a program with a prompt.
const promptChild = "STEVEDORE_TEST_PROMPT"

func TestMain(m *testing.M) {
	if os.Getenv(promptChild) != "" {
		serveTypist()
		return
	}
	os.Setenv("TERM", "xterm")
	os.Exit(slow.RunWaiting(m))
}

// heard is what a Read of the child returned.
type heard struct{ Text, Err string }

// serveTypist reads messages and reports them on the file 3. The message "wait" lets the next
// Read end after a second; while one is open, "say" of the standard error appears above it.
func serveTypist() {
	p := NewPrompt(os.Stdin, os.Stdout)
	defer p.Close()
	out := json.NewEncoder(os.NewFile(3, "report"))
	go func() {
		commands := bufio.NewReader(os.NewFile(4, "commands"))
		for {
			text, err := commands.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(p.Writer(os.Stdout), text)
		}
	}()
	for text := ""; ; {
		ctx, cancel := context.Background(), func() {}
		if text == "wait" {
			ctx, cancel = context.WithTimeout(ctx, time.Second)
		}
		read := p.Read
		if text == "question" { // it comes after what the user has typed meanwhile
			fmt.Fprintln(os.Stdout, "Thinking.")
			for p.keys.waits("yes") {
				time.Sleep(5 * time.Millisecond)
			}
			fmt.Fprintln(os.Stdout, "May it run?")
			read = p.ReadAnswer
		}
		var err error
		text, err = read(ctx)
		cancel()
		_ = out.Encode(heard{text, fmt.Sprint(err)})
		if errors.Is(err, io.EOF) {
			return
		}
	}
}

// typist types on a terminal and sees its screen.
type typist struct {
	*testing.T
	screen   *os.File
	shown    chan string
	heard    *json.Decoder
	commands *os.File
}

func newTypist(t *testing.T) typist {
	t.Helper()
	screen, program := openTerminal(t)
	t.Cleanup(func() { program.Close() })
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	report, toReport, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromCommands, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), promptChild+"=1", "TERM=xterm")
	child.Stdin, child.Stdout, child.Stderr, child.ExtraFiles = program, program, os.Stderr, []*os.File{toReport, fromCommands}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	toReport.Close()
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	p := typist{t, screen, make(chan string, 100_000), json.NewDecoder(report), commands}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := screen.Read(buf)
			if err != nil {
				close(p.shown)
				return
			}
			select {
			case p.shown <- string(buf[:n]):
			default: // a slow machine draws a large paste again and again; no test reads so much
			}
		}
	}()
	p.await("> ")
	return p
}

// await waits until the screen has shown a text.
func (p typist) await(want string) (shown string) {
	p.Helper()
	limit := time.After(time.Minute)
	for !strings.Contains(shown, want) {
		select {
		case text := <-p.shown:
			shown += text
		case <-limit:
			p.Fatalf("the screen shows %q, not %q", shown, want)
		}
	}
	return shown
}

func (p typist) press(keys string) {
	p.Helper()
	if _, err := io.WriteString(p.screen, keys); err != nil {
		p.Fatal(err)
	}
}

// typeSlowly presses keys, the first one alone: until the prompt handles keys, Ctrl-C is a signal.
func (p typist) typeSlowly(keys string) {
	p.Helper()
	p.press(keys[:1])
	p.await("> " + keys[:1])
	p.press(keys[1:])
}

func (p typist) hears(want heard) {
	p.Helper()
	var got heard
	if err := p.heard.Decode(&got); err != nil || got != want {
		var shown strings.Builder
		for len(p.shown) > 0 {
			shown.WriteString(<-p.shown)
		}
		p.Fatalf("the prompt read %q, %s, %v; want %q, %s; the screen shows %q", excerpt(got.Text), got.Err, err, excerpt(want.Text), want.Err, excerpt(shown.String()))
	}
}

// A message is what the user typed and pasted, whatever keys edit it.
func TestPromptOnATerminal(t *testing.T) {
	t.Parallel()
	pasted := 1000
	if slow.Run() {
		pasted = 4000
	}
	lines := strings.TrimSpace(strings.Repeat("a line of 漢字 and \"text\"\n", pasted))
	for name, test := range map[string]struct{ keys, want string }{
		"backslash":              {"first\\\rsecond\r", "first\nsecond"},
		"Alt+Enter":              {"first\x1b\rsecond\r", "first\nsecond"},
		"tab":                    {"a\tb\r", "a\tb"},
		"Backspace over wide":    {"漢字🎉\x7f\x7fx\r", "漢x"},
		"arrows over wide":       {"漢字\x1b[D\x1b[Da\x1b[Cb\r", "a漢b字"},
		"Delete wide":            {"漢字\x01\x1b[3~\r", "字"},
		"Ctrl-D within a line":   {"漢字\x01\x04\r", "字"},
		"Home and End":           {"b\x1b[1~a\x1b[4~d\x1bOH_\x1bOF_\r", "_abd_"},
		"Escape":                 {"a\x1bhello\r", "ahello"},
		"joined emoji, Persian":  {"👨\u200d👩\u200d👧 می\u200cخواهم\r", "👨\u200d👩\u200d👧 می\u200cخواهم"},
		"long line":              {strings.Repeat("x", 20_000) + "\r", strings.Repeat("x", 20_000)},
		"paste":                  {"\x1b[200~a\r\n\tb\n\n c\x1b[201~\r", "a\n\tb\n\n c"},
		"paste after text":       {"explain: \x1b[200~a\nb\x1b[201~, please\r", "explain: a\nb, please"},
		"a long paste":           {"\x1b[200~" + lines + "\x1b[201~\r", lines},
		"paste of control codes": {"x\x1b[200~a\x03\x04\x1b[31mb\x1b\x00\x07\x1b[201~\r", "xa[31mb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTypist(t)
			if strings.Contains(test.keys, "\x03") {
				p.typeSlowly(test.keys)
			} else {
				p.press(test.keys)
			}
			p.hears(heard{test.want, "<nil>"})
			p.press("\x1b[A\r")
			p.hears(heard{test.want, "<nil>"})
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
	t.Parallel()
	p := newTypist(t)
	p.typeSlowly("dropped\x03kept\r")
	p.hears(heard{"", ErrInterrupted.Error()})
	p.hears(heard{"kept", "<nil>"})
	p.typeSlowly("a\\\rb\x03")
	p.hears(heard{"", ErrInterrupted.Error()})
	p.press("\x04")
	p.hears(heard{"", "EOF"})
}

// What the program writes appears above the line that the user edits, and a Read that ends
// keeps what the user has typed for the next one.
func TestOutputAboveThePrompt(t *testing.T) {
	t.Parallel()
	for name, typed := range map[string]string{"narrow": "hel", "wide": "漢字", "several rows": strings.Repeat("x", 200)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTypist(t)
			p.press(typed)
			p.await(typed[len(typed)-1:])
			if _, err := io.WriteString(p.commands, "a text of the program\n"); err != nil {
				t.Fatal(err)
			}
			rows := 1 + (len([]rune(typed))+2)/80
			if shown := p.await("a text of the program\r\n"); !strings.Contains(shown, fmt.Sprintf("\x1b[%dA\r\x1b[Ja text of the program\r\n", rows)) {
				t.Errorf("the screen shows %q", shown)
			}
			p.press("lo\r")
			p.hears(heard{typed + "lo", "<nil>"})
			p.press("wait\r")
			p.hears(heard{"wait", "<nil>"})
			p.press(typed)
			p.hears(heard{"", context.DeadlineExceeded.Error()})
			p.press("!\r")
			p.hears(heard{typed + "!", "<nil>"})
		})
	}
}

// waits reports whether the user has not typed a text yet.
func (f *keyFilter) waits(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !strings.Contains(f.kept, text)
}

// What a user types before he sees a question does not answer it.
func TestNoAnswerBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	p := newTypist(t)
	p.press("question\r")
	p.hears(heard{"question", "<nil>"})
	p.await("Thinking.")
	p.press("yes\r")
	if shown := p.await("May it run?"); !strings.Contains(shown, "> yes") {
		p.await("> yes")
	}
	p.press(" indeed\r") // the first key that the question gets
	p.hears(heard{"yes indeed", "<nil>"})
	p.press("next\r")
	p.hears(heard{"next", "<nil>"})
}

// However much a user types ahead, the prompt returns the first message, and nothing is lost.
func TestKeysBeyondThePipe(t *testing.T) {
	in, user, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f, err := newKeyFilter(in)
	if err != nil {
		t.Fatal(err)
	}
	typed := strings.Repeat("a line\r", 50_000) // a pipe takes 64 KiB
	go func() {
		_, _ = io.WriteString(user, typed)
		user.Close()
	}()
	first := make([]byte, 7)
	f.release(false)
	if _, err := io.ReadFull(f.out, first); err != nil {
		t.Fatal(err)
	}
	f.hold()
	f.release(false)
	rest, err := io.ReadAll(f.out)
	if err != nil || string(first)+string(rest) != typed {
		t.Errorf("%d bytes of %d, %v", len(first)+len(rest), len(typed), err)
	}
}
