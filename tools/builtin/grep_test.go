//go:build unix

package builtin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/builtin"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

func TestGrep(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	b.file("a.go", "one\ntwo\nthree\nfour\nfive\nsix\n")
	b.file("src/b.go", "Three\r\nend")
	b.file("src/c.txt", "three")
	b.file("bin", "three\x00")
	b.file("dos/d.c", "foo;\r\nbar\r\n\r\nbaz;\r\nend\r\n")
	b.file("dos/empty", "")
	b.file(".git/HEAD", "three")
	b.file(".latin/f", "Gr\xf6\xdfe 7\nGruss 8\n")
	b.file(".wide/f", "\xff\xfeG\x00r\x00\xf6\x00\xdf\x00e\x00 \x007\x00\n\x00G\x00r\x00u\x00s\x00s\x00 \x008\x00\n\x00")
	b.file(".gbk/f", "name: \xd6\xd0\xce\xc4, and much more text in ASCII\n")
	must(t, os.Symlink("a.go", filepath.Join(b.dir, "link")))
	for _, tt := range []struct {
		args args
		want string
	}{
		{args{"pattern": "three"}, "a.go:3: three\nsrc/c.txt:1: three\n[2 matching lines in 2 of 8 files]\n[skipped: 1 binary files, 0 unreadable files]"},
		{args{"pattern": "^three$", "ignore_case": true, "glob": "*.go"}, "a.go:3: three\nsrc/b.go:1: Three\n[2 matching lines in 2 of 2 files]"},
		{args{"pattern": "e$", "path": "src"}, "src/b.go:1: Three\nsrc/c.txt:1: three\n[2 matching lines in 2 of 2 files]"},
		{args{"pattern": "three", "path": "src", "glob": "**/*.{txt,md}"}, "src/c.txt:1: three\n[1 matching lines in 1 of 1 files]"},
		{args{"pattern": "^three$", "ignore_case": true, "glob": "./*.go"}, "a.go:3: three\n[1 matching lines in 1 of 1 files]"},
		{args{"pattern": "three", "glob": "./src/*.txt"}, "src/c.txt:1: three\n[1 matching lines in 1 of 1 files]"},
		{args{"pattern": "two|six", "path": "a.go", "context": 1}, "a.go-1- one\na.go:2: two\na.go-3- three\n--\na.go-5- five\na.go:6: six\n[2 matching lines in 1 of 1 files]"},
		{args{"pattern": "two|four", "path": "a.go", "context": 1}, "a.go-1- one\na.go:2: two\na.go-3- three\na.go:4: four\na.go-5- five\n[2 matching lines in 1 of 1 files]"},
		{args{"pattern": "o", "path": "a.go", "max_results": 1, "context": 1}, "a.go:1: one\na.go-2- two\n[1 matching lines in 1 of 1 files]\n[stopped at max_results = 1; there may be more]"},
		{args{"pattern": "[^;]$", "path": "dos", "context": 1}, "dos/d.c-1- foo;\ndos/d.c:2: bar\ndos/d.c-3- \ndos/d.c-4- baz;\ndos/d.c:5: end\n[2 matching lines in 1 of 2 files]"},
		{args{"pattern": "^$", "path": "dos"}, "dos/d.c:3: \n[1 matching lines in 1 of 2 files]"},
		{args{"pattern": `no\|thing`, "path": "link"}, `No matches for pattern "no\\|thing" in 1 files` + "\n" + `[the syntax is RE2, where \| is the character |; did you mean "no|thing"?]`},
		{args{"pattern": "nothing", "path": "link"}, `No matches for pattern "nothing" in 1 files`},
		{args{"pattern": "Größe", "path": ".latin"}, ".latin/f:1: Größe 7\n[1 matching lines in 1 of 1 files]"},
		{args{"pattern": "GRÖSSE|grö", "ignore_case": true, "context": 1, "path": ".wide"}, ".wide/f:1: Größe 7\n.wide/f-2- Gruss 8\n[1 matching lines in 1 of 1 files]"},
		{args{"pattern": "Größe", "path": ".gbk"}, `No matches for pattern "Größe" in 1 files` + "\n[1 of the files are in an unknown encoding: letters of the pattern beyond " +
			"ASCII do not match there; convert them, for example with shell: iconv]"},
		{args{"pattern": "Gruss", "path": ".latin"}, ".latin/f:2: Gruss 8\n[1 matching lines in 1 of 1 files]"},
		{args{"pattern": "three", "path": ".git"}, ".git/HEAD:1: three\n[1 matching lines in 1 of 1 files]"},
	} {
		if got := b.ok("grep", tt.args); got != tt.want {
			t.Errorf("grep %v =\n%s\nwant\n%s", tt.args, got, tt.want)
		}
	}
	for _, tt := range []struct {
		args args
		want string
	}{
		{args{"pattern": "a("}, "missing closing )"},
		{args{"pattern": ""}, "empty"},
		{args{"pattern": strings.Repeat("a", 5000)}, "5000 bytes"},
		{args{"pattern": "(" + strings.Repeat("[a-c]?", 30) + "){999}"}, "too large"},
		{args{"pattern": "a", "glob": "["}, "glob"},
		{args{"pattern": "a", "context": 101}, "context"},
		{args{"pattern": "a", "path": "absent"}, "not found"},
		{args{"pattern": "a", "path": "bin/x"}, "failed to search"},
	} {
		b.fails("grep", tt.args, tt.want)
	}
}

func TestGrepLongLines(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	long := strings.Repeat("é", 200_000)
	b.file("long", "start\n"+long+"needle"+long+"end\r\nneedle\n")
	got := b.ok("grep", args{"pattern": "needle|end$"})
	lines := strings.Split(got, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "long:2: …é") || !strings.Contains(lines[0], "éneedleé") ||
		!strings.HasSuffix(lines[0], "éend [cut; 2 matches in this line]") || len(lines[0]) > 2100 || lines[1] != "long:3: needle" {
		t.Errorf("got %q", got)
	}
	if got := b.ok("grep", args{"pattern": "end$"}); !strings.Contains(got, "end\n") {
		t.Errorf("the end of a long line with CRLF: %q", got)
	}
	if got := b.ok("grep", args{"pattern": "^start", "context": 1}); strings.Contains(got, "\uFFFD") || len(got) > 2200 {
		t.Errorf("a long line as context: %q", got)
	}
}

// Such patterns take many seconds for each MiB, and package regexp cannot be
// interrupted, but the search ends with its context.
func TestGrepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	b.file("evil", strings.Repeat("a", 4<<20))
	for _, pattern := range []string{"(a?){400}[b-d]", "((a?){20}){20}[b-d]"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		res := b.run(ctx, "grep", args{"pattern": pattern})
		cancel()
		if got := tools.CodeOf(res.Err); !res.IsError || got != tools.CodeTimeout {
			t.Errorf("grep %s: code %q, text %.200q; want a timeout", pattern, got, res.ForLLM)
		}
	}
}

func TestGrepKeepsWhatItFoundInTime(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{SearchTime: 200 * time.Millisecond})
	b.file("1", "aaab\n")
	b.file("2", strings.Repeat("a", 4<<20))
	got := b.ok("grep", args{"pattern": "(a?){400}[b-d]"})
	if !strings.HasPrefix(got, "1:1: aaab\n") || !strings.Contains(got, "not complete") {
		t.Errorf("got %q", got)
	}
}

// A slow search of a session waits for the slots that other reads of the session hold, and begins
// again when it gets one. Searches of other sessions do not wait.
func TestGrepTakesTurns(t *testing.T) {
	t.Parallel()
	pool := limited.NewPool()
	b := newFixture(t, builtin.Config{Pool: pool})
	b.file("1", "aaab\n"+strings.Repeat("a", 30_000))
	b.file("2", "b\n")
	other := *b
	b.session, other.session = "s", "other"
	full, release := make(chan struct{}), make(chan struct{})
	var started atomic.Int32
	var holders sync.WaitGroup
	for range 3 { // the third one begins when one of the others has taken the slow slot
		holders.Go(func() {
			_ = pool.Do(t.Context(), "s", time.Hour, func(context.Context) error {
				if started.Add(1) == 3 {
					close(full)
				}
				for started.Load() < 3 {
				}
				<-release
				return nil
			})
		})
	}
	<-full
	slow := make(chan *tools.Result)
	go func() { slow <- b.run(t.Context(), "grep", args{"path": "1", "pattern": "(a?){400}[b-d]"}) }()
	for range 50 {
		other.ok("grep", args{"path": "2", "pattern": "b"})
	}
	select {
	case res := <-slow:
		t.Errorf("a search did not wait for its turn: %+v", res)
		close(release)
	default:
		close(release)
		if res := <-slow; res.IsError || strings.Count(res.ForLLM, "aaab") != 1 {
			t.Errorf("the search that waited: %+v", res)
		}
	}
	holders.Wait()
}

// A pattern whose braces stand for many patterns would take minutes for each name, and cannot be interrupted.
func TestHostileGlobs(t *testing.T) {
	t.Parallel()
	b := newFixture(t, builtin.Config{})
	b.file(strings.Repeat("a", 60), "x\n")
	for _, glob := range []string{strings.Repeat("{a,a}", 30) + "b", strings.Repeat("{,a}", 30) + "b", strings.Repeat("{a,", 12) + "{a,a}{a,a}" + strings.Repeat("}", 12)} {
		for tool, a := range map[string]args{"glob": {"pattern": glob}, "grep": {"pattern": "x", "glob": glob}} {
			if res := b.run(t.Context(), tool, a); tools.CodeOf(res.Err) != tools.CodeInvalidArguments || !strings.Contains(res.ForLLM, "use fewer") {
				t.Errorf("%s %s: %.200q", tool, glob, res.ForLLM)
			}
		}
	}
	if got := b.ok("glob", args{"pattern": strings.Repeat("{a,b}", 9) + `*\{`}); !strings.Contains(got, "No files match") {
		t.Errorf("a pattern with 512 alternatives: %q", got)
	}
}

func TestGrepCancelled(t *testing.T) {
	b := newFixture(t, builtin.Config{})
	for i := range 10 {
		b.file(fmt.Sprint(i), "x\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if res := b.run(ctx, "grep", args{"pattern": "x"}); tools.CodeOf(res.Err) != tools.CodeCancelled {
		t.Errorf("got %+v, want cancelled", res)
	}
}
