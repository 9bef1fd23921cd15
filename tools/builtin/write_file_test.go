//go:build unix

package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
)

// content reads a file of the workspace without the tools.
func (b *fixture) content(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// names lists a directory of the workspace without the tools.
func (b *fixture) names(dir string) []string {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.dir, dir))
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Two workers run the same call at once, because it was delivered again. Both succeed: neither
// takes the file of the other for a change by somebody else.
func TestWriteFileInTwoWorkers(t *testing.T) {
	first := newFixture(t, builtin.Config{})
	second := newFixture(t, builtin.Config{Workspace: first.dir})
	for i := range 50 {
		name := fmt.Sprint(i, ".txt")
		var both sync.WaitGroup
		for _, b := range []*fixture{first, second} {
			both.Go(func() {
				if res := b.run(t.Context(), "write_file", args{"path": name, "content": "hello"}); res.IsError {
					t.Errorf("%s: %+v", name, res)
				}
			})
		}
		both.Wait()
		if got := first.content(name); got != "hello" {
			t.Errorf("%s holds %q", name, got)
		}
	}
}

// Two workers change one file at once. No change is lost.
func TestChangesInTwoWorkers(t *testing.T) {
	t.Parallel()
	first := newFixture(t, builtin.Config{})
	second := newFixture(t, builtin.Config{Workspace: first.dir})
	first.file("dir/f", "0 has 0.\n1 has 0.\n")
	const rounds = 20
	var both sync.WaitGroup
	for i, b := range []*fixture{first, second} {
		both.Go(func() {
			for n := range rounds {
				res := b.run(t.Context(), "edit_file", args{"path": "dir/f", "old_text": fmt.Sprintf("%d has %d.", i, n), "new_text": fmt.Sprintf("%d has %d.", i, n+1)})
				if !res.IsError {
					res = b.run(t.Context(), "append_file", args{"path": "dir/f", "content": fmt.Sprintf("%d added %d\n", i, n)})
				}
				if res.IsError {
					t.Errorf("worker %d, %d: %s", i, n, res.ForLLM)
					return
				}
			}
		})
	}
	both.Wait()
	got := first.content("dir/f")
	if want := fmt.Sprintf("0 has %[1]d.\n1 has %[1]d.\n", rounds); !strings.HasPrefix(got, want) || strings.Count(got, "added") != 2*rounds {
		t.Errorf("the file has\n%s", got)
	}
}

func TestWriteFile(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	must(t, os.Chmod(b.file("run.sh", "old"), 0o777))
	for _, tt := range []struct{ path, file, content string }{
		{"new.txt", "new.txt", "hello\n"},
		{"a/b/c.txt", "a/b/c.txt", "deep"},
		{"run.sh", "run.sh", "new"},
		{"empty", "empty", ""},
		{filepath.Join(b.dir, "abs.txt"), "abs.txt", "x\r\n\x00"},
	} {
		res := b.run(t.Context(), "write_file", args{"path": tt.path, "content": tt.content})
		if want := "File updated: " + tt.path; res.IsError || res.ForLLM != want || !res.Silent || res.ForUser != "" {
			t.Errorf("write_file %s = %+v, want %q, silent", tt.path, res, want)
		}
		if got := b.content(tt.file); got != tt.content {
			t.Errorf("%s holds %q, want %q", tt.path, got, tt.content)
		}
	}
	b.ok("write_file", args{"path": "image", "content": "iVBORwD/", "base64": true})
	if got := b.content("image"); got != "\x89PNG\x00\xff" {
		t.Errorf("base64 becomes %q", got)
	}
	must(t, os.Remove(filepath.Join(b.dir, "image")))
	b.fails("write_file", args{"path": "image", "content": "no base64!", "base64": true}, "not base64")
	info, err := os.Stat(filepath.Join(b.dir, "run.sh"))
	must(t, err)
	if info.Mode().Perm() != 0o777 {
		t.Errorf("mode = %v, want 0777", info.Mode())
	}
	if got, want := b.names("."), []string{"a", "abs.txt", "empty", "new.txt", "run.sh"}; !slices.Equal(got, want) {
		t.Errorf("the workspace holds %q, want %q", got, want)
	}
}

func TestWritingRefusesHostilePaths(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	outside := ""
	for _, path := range hostile(t, b) {
		b.fails("write_file", args{"path": path, "content": "overwritten"})
		b.fails("edit_file", args{"path": path, "old_text": "canary", "new_text": "overwritten"})
		if filepath.Base(path) == "secret" && filepath.IsAbs(path) {
			outside = path
		}
	}
	data, err := os.ReadFile(outside)
	must(t, err)
	if string(data) != "canary\n" {
		t.Errorf("the file outside holds %q", data)
	}
	if got := b.names("sub"); got != nil {
		t.Errorf("left behind: %q", got)
	}
	if i := slices.IndexFunc(b.names("."), func(s string) bool { return strings.HasSuffix(s, ".stevedore-tmp") }); i >= 0 {
		t.Errorf("left behind: %q", b.names("."))
	}
	must(t, os.Symlink("inside", filepath.Join(b.dir, "l")))
	b.file("inside", "x")
	b.fails("write_file", args{"path": "l", "content": "y"}, `symbolic link to "inside"`)
	b.fails("write_file", args{"path": "inside/x", "content": "y"}, "failed to write")
}

// runWriter is a child process that exceeds its limit on file sizes, like on a full
// disk.
func runWriter() int {
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
		return 1
	}
	all, _, err := builtin.Tools(builtin.Config{Workspace: os.Getenv("STEVEDORE_TEST_DIR"), Shell: builtin.ShellConfig{Refuse: io.EOF}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	i := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Definition().Name == "write_file" })
	raw, _ := json.Marshal(args{"path": "f", "content": strings.Repeat("x", 1<<20)})
	fmt.Print(all[i].Execute(context.Background(), tools.Call{Args: raw}).ForLLM)
	return 0
}

func TestWriteFileOnAFullDisk(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	b.file("f", "old")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STEVEDORE_TEST_ROLE=writer", "STEVEDORE_TEST_DIR="+b.dir)
	out, err := cmd.CombinedOutput()
	if want := `failed to write file "f": file too large`; err != nil || string(out) != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	if got := b.content("f"); got != "old" {
		t.Errorf("the file holds %.20q, want the old content", got)
	}
	if got := b.names("."); !slices.Equal(got, []string{"f"}) {
		t.Errorf("left behind: %q", got)
	}
}

func TestEditFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, before, old, new, after, diff string }{
		{"a word", "one\ntwo\nthree\n", "two", "2", "one\n2\nthree\n", " one\n-two\n+2\n three\n"},
		{"lines", "a\nb\nc\nd\n", "b\nc", "b\nX\nc", "a\nb\nX\nc\nd\n", "+X\n"},
		{"removal", "a\nb\n", "a\n", "", "b\n", "-a\n"},
		{"CRLF kept, text with LF", "a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n", "+y\r\n"},
		{"CRLF kept, new line with LF", "a\r\nb\r\n", "b", "b\nb2", "a\r\nb\r\nb2\r\n", "+b2\r\n"},
		{"mixed line ends stay as they are", "a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n", "+y\n"},
		{"bytes that are no UTF-8", "\xff a \xfe\n", "a", "b", "\xff b \xfe\n", "+\\xff b \\xfe\n"},
		{"Latin-1", "Gr\xf6\xdfe 7\nna\xefve\n", "Größe 7", "Länge 8", "L\xe4nge 8\nna\xefve\n", "-Größe 7\n+Länge 8\n naïve\n"},
		{"UTF-16", "\xff\xfe\xf6\x00\r\x00\n\x00a\x00\r\x00\n\x00", "ö\na", "ö\n→", "\xff\xfe\xf6\x00\r\x00\n\x00\x92!\r\x00\n\x00", "-a\r\n+→\r\n"},
		{"no line before", "a\n", "a", "b\na", "b\na\n", "@@ -1 +1,2 @@\n+b\n a\n"},
		{"all lines removed", "a\nb\n", "a\nb\n", "", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"two places", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\n9", "A\n2\n3\n4\n5\n6\n7\n8\nB", "0\nA\n2\n3\n4\n5\n6\n7\n8\nB\n",
			"@@ -1,10 +1,10 @@\n 0\n-1\n-2\n-3\n-4\n-5\n-6\n-7\n-8\n-9\n+A\n+2\n+3\n+4\n+5\n+6\n+7\n+8\n+B\n"},
		{"the last lines", "1\n2\n3\n4\n5\n6\n7\n8\n9", "6\n7", "6\n\n7", "1\n2\n3\n4\n5\n6\n\n7\n8\n9", "@@ -4,6 +4,7 @@\n 4\n 5\n 6\n+\n 7\n 8\n 9\n\\ No newline at end of file\n"},
		{"no newline at the end", "a", "a", "b", "b", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"},
		{"special characters", "$1 \\n .*", ".*", "$0", "$1 \\n $0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFixture(t, builtin.Config{})
			must(t, os.Chmod(b.file("f", tt.before), 0o666))
			res := b.run(t.Context(), "edit_file", args{"path": "f", "old_text": tt.old, "new_text": tt.new})
			if res.IsError || !res.Silent || !strings.HasPrefix(res.ForLLM, "File edited: f\n--- f\n+++ f\n@@ ") || !strings.Contains(res.ForLLM, tt.diff) {
				t.Errorf("got %+v, want the diff %q", res, tt.diff)
			}
			if got := b.content("f"); got != tt.after {
				t.Errorf("the file holds %q, want %q", got, tt.after)
			}
			info, err := os.Stat(filepath.Join(b.dir, "f"))
			must(t, err)
			if info.Mode().Perm() != 0o666 {
				t.Errorf("mode = %v, want 0666", info.Mode())
			}
		})
	}
}

func TestEditFileNeedsOneMatch(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	const content = "func a() {\n\treturn  1\n}\n\nfunc b() {\n\treturn 2\n}\naaa\n"
	b.file("f", content)
	b.file("big", strings.Repeat("x", 16<<20+1))
	b.file("bin", "a\x00b")
	b.file("latin1", "caf\xe9")
	b.file("stray", "Gr\xc3\xb6\xc3\x9fe a\xff b")
	b.file("surrogate", "\xff\xfea\x00"+strings.Repeat("x\x00", 5_000)+"\x00\xd8b\x00")
	for _, tt := range []struct {
		path, old, new string
		want           []string
	}{
		{"f", "absent", "x", []string{"old_text not found"}},
		{"latin1", "café", "cafe→", []string{"windows-1252 lacks a character of the text", "iconv -f windows-1252 -t UTF-8"}},
		{"stray", "Größe", "x", []string{"it has bytes that are not UTF-8", "iconv"}},
		{"surrogate", "a", "b", []string{"utf-16le with characters that are not valid"}},
		{"f", "func", "x", []string{"old_text appears 2 times", "lines 1, 5"}},
		{"f", "aa", "x", []string{"appears 2 times"}},
		{"f", "func a() {\n  return 1\n}", "x", []string{"not found", "Lines 1 to 3 differ", "white space only:\nfunc a() {\n\treturn  1\n}"}},
		{"f", "func b() {\n\treturn 3\n}", "x", []string{"not found", `Line 5 of the file contains "func b() {"`}},
		{"f", "", "x", []string{"old_text is empty"}},
		{"f", "x", "x", []string{"the same"}},
		{"stray", "a\\xff", "x", []string{"not found", "shows \\xNN for invalid bytes"}},
		{"f", "caf\\xe9", "x", []string{"not found in \"f\"; it must match exactly, including white space"}},
		{"absent", "a", "b", []string{"not found"}},
		{"big", "a", "b", []string{"more than 16777216 bytes"}},
		{"bin", "a", "b", []string{"not a text file"}},
	} {
		b.fails("edit_file", args{"path": tt.path, "old_text": tt.old, "new_text": tt.new}, tt.want...)
	}
	b.fails("edit_file", args{"path": "f", "old_text": "a"}, "new_text")
	if got := b.content("f"); got != content {
		t.Errorf("a refused edit changed the file to %q", got)
	}
}

// A model may send several edits of one file in one turn; none may be lost.
func TestEditFileAtOnce(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	const n = 20
	var before, after strings.Builder
	for i := range n {
		fmt.Fprintf(&before, "<%d>\n", i)
		fmt.Fprintf(&after, "done %d\n", i)
	}
	b.file("f", before.String())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b.run(t.Context(), "edit_file", args{"path": "f", "old_text": fmt.Sprintf("<%d>", i), "new_text": fmt.Sprintf("done %d", i)})
		})
	}
	wg.Wait()
	if got := b.content("f"); got != after.String() {
		t.Errorf("lost edits:\n%s", got)
	}
}

// append_file adds exactly the text, creates missing files, and refuses what write_file
// refuses.
func TestAppendFile(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	for _, text := range []string{"one\n", "two", ", too\n"} {
		b.ok("append_file", args{"path": "dir/log.txt", "content": text})
	}
	if got := b.content("dir/log.txt"); got != "one\ntwo, too\n" {
		t.Errorf("the file holds %q", got)
	}
	for before, want := range map[string]string{
		"\xff\xfea\x00\n\x00": "\xff\xfea\x00\n\x00\xf6\x00\n\x00", "Gr\xf6\xdfe 7\nna\xefve\n": "Gr\xf6\xdfe 7\nna\xefve\n\xf6\n", "Größe\n": "Größe\nö\n", "a\x00\xff": "a\x00\xffö\n",
	} {
		b.file("encoded", before)
		b.ok("append_file", args{"path": "encoded", "content": ""})
		if b.ok("append_file", args{"path": "encoded", "content": "ö\n"}); b.content("encoded") != want {
			t.Errorf("the file holds %q, want %q", b.content("encoded"), want)
		}
	}
	b.file("encoded", "Gr\xf6\xdfe 7\nna\xefve\n")
	b.fails("append_file", args{"path": "encoded", "content": "→"}, "windows-1252 lacks a character")
	b.fails("append_file", args{"path": "dir", "content": "x"}, "directory")
	for _, path := range hostile(t, b) {
		b.fails("append_file", args{"path": path, "content": "overwritten"})
	}
}
