//go:build unix

package builtin_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

func TestReadFile(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	b.file("five", "one\ntwo\nthree\nfour\nfive")
	b.file("crlf", "one\r\ntwo\r\n")
	b.file("empty", "")
	b.file("latin1", "caf\xe9 au lait\n")
	for _, tt := range []struct {
		args args
		want string
	}{
		{args{"path": "five"}, "one\ntwo\nthree\nfour\nfive"},
		{args{"path": "five", "offset": 4}, "four\nfive"},
		{args{"path": "five", "offset": 5, "limit": 9}, "five"},
		{args{"path": "five", "limit": 2}, "one\ntwo\n[more lines follow; continue with offset 3]"},
		{args{"path": "five", "offset": 2, "limit": 2}, "two\nthree\n[more lines follow; continue with offset 4]"},
		{args{"path": "five", "offset": 4, "limit": 2}, "four\nfive"},
		{args{"path": "crlf"}, "one\r\ntwo\r\n"},
		{args{"path": "crlf", "offset": 2}, "two\r\n"},
		{args{"path": "empty"}, "(the file is empty)"},
	} {
		res := b.run(t.Context(), "read_file", tt.args)
		if res.ForLLM != tt.want || res.IsError || !res.Silent || res.ForUser != "" {
			t.Errorf("read_file %v = %+v, want %q", tt.args, res, tt.want)
		}
	}
	latin1 := b.run(t.Context(), "read_file", args{"path": "latin1"})
	if got := latin1.ForLLM; got != "café au lait\n[the file is windows-1252, which edit_file keeps; write_file writes UTF-8]" {
		t.Errorf("read_file shows %q of Latin-1", got)
	}
	b.fails("read_file", args{"path": "five", "offset": 6}, "5 lines")
	b.fails("read_file", args{"path": "five", "offset": -1}, "negative")
	b.fails("read_file", args{}, "path")
	b.fails("read_file", args{"path": "five", "lines": 3}, "lines")
}

func TestReadFileRefusesBinary(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	b.file("pic", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	b.file("tar", strings.Repeat("a\x00", 512))
	b.fails("read_file", args{"path": "pic"}, "image/png", "16 bytes")
	b.fails("read_file", args{"path": "tar"}, "1024 bytes")
}

// A file that is larger than the memory limit is streamed, also with a range of lines.
func TestReadFileStreams(t *testing.T) {
	b := newFixture(t, builtin.Config{Output: tools.OutputLimits{Memory: 1 << 16}})
	line := strings.Repeat("x", 300_000) + "\n" // longer than any buffer
	b.file("big", "first\n"+line+line+"last\n")
	res := b.run(t.Context(), "read_file", args{"path": "big", "offset": 2, "limit": 2})
	if res.IsError || res.Output == nil || res.ForLLM != "" {
		t.Fatalf("got %.200q, want an Output", res.ForLLM)
	}
	got, err := io.ReadAll(res.Output.Reader())
	must(t, err)
	if want := line + line + "[more lines follow; continue with offset 4]"; string(got) != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
}

func TestReadFileTruncatesHonestly(t *testing.T) {
	b := newFixture(t, builtin.Config{Output: tools.OutputLimits{Total: 10}})
	b.file("big", strings.Repeat("0123456789", 10))
	b.file("lines", strings.Repeat("0123456789\n", 10))
	for _, a := range []args{{"path": "big"}, {"path": "lines", "limit": 3}} {
		if got, want := b.ok("read_file", a), "0123456789\n[truncated: only the first 10 bytes of these lines were kept; use offset and limit]"; got != want {
			t.Errorf("%v: got %q, want %q", a, got, want)
		}
	}
}

// If the spill file cannot be created, the result is an error and not half the file.
func TestReadFileWithoutSpillDirectory(t *testing.T) {
	b := newFixture(t, builtin.Config{Output: tools.OutputLimits{Memory: 10, Dir: filepath.Join(t.TempDir(), "absent")}})
	b.file("big", strings.Repeat("x", 100))
	b.fails("read_file", args{"path": "big"}, "spill")
}

func TestListDir(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	if got := b.ok("list_dir", args{}); got != "(the directory is empty)" {
		t.Errorf("empty directory: %q", got)
	}
	b.file("b.txt", "12345")
	b.file("a/inner/deep.txt", "1")
	b.file(".git/config", "x")
	b.file("bad\xffname\n", "")
	must(t, os.Symlink("a", filepath.Join(b.dir, "z")))
	must(t, os.Symlink("..", filepath.Join(b.dir, "a", "up")))
	for _, tt := range []struct {
		args args
		want []string
	}{
		{args{}, []string{"DIR:  .git/", "DIR:  a/", "FILE: b.txt (5 bytes)", `FILE: "bad\xffname\n" (0 bytes)`, "LINK: z -> a"}},
		{args{"path": "a/inner"}, []string{"FILE: deep.txt (1 bytes)"}},
		{args{"path": "z/inner"}, []string{"FILE: deep.txt (1 bytes)"}},
		{args{"path": ".git"}, []string{"FILE: config (1 bytes)"}},
		{args{"recursive": true}, []string{"DIR:  .git/", "DIR:  a/", "DIR:  a/inner/", "FILE: a/inner/deep.txt (1 bytes)",
			"LINK: a/up -> ..", "FILE: b.txt (5 bytes)", `FILE: "bad\xffname\n" (0 bytes)`, "LINK: z -> a"}},
	} {
		got := b.ok("list_dir", tt.args)
		if want := strings.Join(tt.want, "\n") + "\n"; got != want {
			t.Errorf("list_dir %v =\n%swant\n%s", tt.args, got, want)
		}
	}
	b.fails("list_dir", args{"path": "absent"}, "failed to read", "not found")
	b.fails("list_dir", args{"path": "b.txt"}, "not a directory")
}
