package tools_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/stevedore-bus/stevedore/tools"
)

// An Output reads the same from memory and from a file.
func TestOutputReads(t *testing.T) {
	for name, memory := range map[string]int64{"memory": 100, "file": 4} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out := tools.NewOutput(tools.OutputLimits{Dir: dir, Memory: memory})
			for _, s := range []string{"hel", "", "lo wo", "rld"} {
				if n, err := out.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", s, n, err)
				}
			}
			if err := iotest.TestReader(out.Reader(), []byte("hello world")); err != nil {
				t.Error(err)
			}
			for _, tt := range []struct {
				off  int64
				size int
				want string
				err  error
			}{
				{0, 11, "hello world", nil}, {6, 3, "wor", nil}, {6, 50, "world", io.EOF}, {11, 1, "", io.EOF}, {99, 1, "", io.EOF},
			} {
				p := make([]byte, tt.size)
				n, err := out.ReadAt(p, tt.off)
				if string(p[:n]) != tt.want || err != tt.err {
					t.Errorf("ReadAt(%d bytes, %d) = %q, %v; want %q, %v", tt.size, tt.off, p[:n], err, tt.want, tt.err)
				}
			}
			if _, err := out.ReadAt(make([]byte, 1), -1); err == nil {
				t.Error("ReadAt(-1): no error")
			}
			if text, ok, err := out.Text(11); text != "hello world" || !ok || err != nil {
				t.Errorf("Text(11) = %q, %v, %v", text, ok, err)
			}
			if text, ok, err := out.Text(10); text != "" || ok || err != nil {
				t.Errorf("Text(10) = %q, %v, %v", text, ok, err)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("the spill file has a name: %v", left)
			}
			for range 2 {
				if err := out.Close(); err != nil {
					t.Errorf("Close = %v", err)
				}
			}
			if _, err := out.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Write after Close = %v", err)
			}
			if _, err := out.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("ReadAt after Close = %v", err)
			}
		})
	}
}

func TestOutputTotal(t *testing.T) {
	for name, memory := range map[string]int64{"memory": 100, "file": 2} {
		t.Run(name, func(t *testing.T) {
			out := tools.NewOutput(tools.OutputLimits{Dir: t.TempDir(), Memory: memory, Total: 5})
			defer out.Close()
			for i, s := range []string{"abc", "de", "", "f", "ghi"} {
				if n, err := out.Write([]byte(s)); n != len(s) || err != nil {
					t.Errorf("Write(%q) = %d, %v", s, n, err)
				}
				if got, want := out.Truncated(), i > 2; got != want {
					t.Errorf("after %q: Truncated = %v, want %v", s, got, want)
				}
			}
			out.Note("one")
			out.Write([]byte("x"))
			out.Note("two")
			if text, _, err := out.Text(100); text != "abcde\none\ntwo" || err != nil {
				t.Errorf("Text = %q, %v", text, err)
			}
		})
	}
}

func TestOutputNote(t *testing.T) {
	for before, want := range map[string]string{"": "note", "a": "a\nnote", "a\n": "a\nnote"} {
		out := tools.NewOutput(tools.OutputLimits{})
		out.Write([]byte(before))
		out.Write(nil)
		out.Note("note")
		if text, _, _ := out.Text(100); text != want {
			t.Errorf("%q and a note = %q, want %q", before, text, want)
		}
		out.Close()
		out.Note("after Close")
	}
}

// If the spill file cannot be written, this write and all later ones fail. The bytes
// before can be read.
func TestOutputWithoutSpillDirectory(t *testing.T) {
	out := tools.NewOutput(tools.OutputLimits{Memory: 4, Dir: filepath.Join(t.TempDir(), "absent")})
	defer out.Close()
	out.Write([]byte("abc"))
	for range 2 {
		if n, err := out.Write([]byte("defg")); n != 0 || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if !errors.Is(out.Err(), fs.ErrNotExist) {
		t.Errorf("Err = %v", out.Err())
	}
	if text, _, _ := out.Text(100); text != "abc" {
		t.Errorf("Text = %q", text)
	}
}

func TestOutputConcurrently(t *testing.T) {
	out := tools.NewOutput(tools.OutputLimits{Dir: t.TempDir(), Memory: 1000})
	defer out.Close()
	line := strings.Repeat("x", 9) + "\n"
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				out.Write([]byte(line))
				out.ReadAt(make([]byte, 20), out.Size()-10)
			}
		})
	}
	wg.Wait()
	got, err := io.ReadAll(out.Reader())
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte(line), 400)) {
		t.Errorf("%d bytes, %v; want 400 whole lines", len(got), err)
	}
}
