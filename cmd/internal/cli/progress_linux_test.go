package cli

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal: ", err)
	}
	return screen, program
}

// On a terminal, a long operation shows how far it is, without colours, and leaves nothing.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1 << 20, -1} {
		screen, program := openTerminal(t)
		p := StartProgress(program, "Saving the cargo", size)
		if _, err := p.Write(make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
		want, seen, buf := "Saving the cargo", "", make([]byte, 4096)
		if size > 0 {
			want = "50%"
		}
		for !strings.Contains(seen, want) {
			n, err := screen.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, seen)
			}
			seen += string(buf[:n])
		}
		p.Stop()
		for !strings.HasSuffix(seen, "\r\x1b[2K") {
			n, err := screen.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, seen)
			}
			seen += string(buf[:n])
		}
		if strings.Contains(seen, "\n") || strings.Contains(seen, "\x1b[3") {
			t.Errorf("the progress has lines or colours: %q", seen)
		}
		program.Close()
	}
}

// If the terminal becomes narrower, it shows the line in several rows. All of them go.
func TestProgressOnANarrowerTerminal(t *testing.T) {
	t.Parallel()
	screen, program := openTerminal(t)
	defer program.Close()
	resize := func(columns uint16) {
		if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
			t.Fatal(err)
		}
	}
	resize(80)
	p := StartProgress(program, "Saving the cargo", 1<<20)
	seen, buf := "", make([]byte, 4096)
	await := func(want string) {
		t.Helper()
		for !strings.Contains(seen, want) {
			n, err := screen.Read(buf)
			if err != nil {
				t.Fatalf("%v after %q", err, seen)
			}
			seen += string(buf[:n])
		}
		seen = seen[strings.Index(seen, want)+len(want):]
	}
	if _, err := p.Write(make([]byte, 512<<10)); err != nil {
		t.Fatal(err)
	}
	await("\x1b[?7l") // nothing wraps
	await("Saving the cargo")
	await("\x1b[?7h")
	resize(20)
	await("A\r\x1b[J")
	if _, err := p.Write(make([]byte, 256<<10)); err != nil {
		t.Fatal(err)
	}
	await("Saving the cargo")
	p.Stop()
	await("\r\x1b[2K")
	if strings.Contains(seen, "A") {
		t.Errorf("rows above the line of one row are removed: %q", seen)
	}
}

func TestNoProgressElsewhere(t *testing.T) {
	_, program := openTerminal(t)
	defer program.Close()
	t.Setenv("TERM", "dumb")
	if p := StartProgress(program, "x", -1); p != nil {
		t.Error("a dumb terminal shows progress")
	}
	t.Setenv("TERM", "xterm")
	var out bytes.Buffer
	p := StartProgress(&out, "x", 3)
	if n, err := p.Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	p.Stop()
	if p != nil || out.Len() > 0 {
		t.Errorf("a pipe shows %q", out.String())
	}
}

// A terminal shows what is written to it in pieces as it shows the whole, without control characters.
func TestScreenEscapes(t *testing.T) {
	shown, program := openTerminal(t)
	w := onTerminal(program)
	for _, b := range []byte("é\r\n\x1b[2J\u009bx\xe2\x80\r") {
		if n, err := w.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	w.(*screen).flush()
	const want = "é\r\n\\x1b[2J\\x9bx\\xe2\\x80\\x0d"
	seen, buf := "", make([]byte, 4096)
	for len(seen) < len(want) {
		n, err := shown.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
		seen += string(buf[:n])
	}
	if seen != want {
		t.Errorf("the terminal shows %q, want %q", seen, want)
	}
}
