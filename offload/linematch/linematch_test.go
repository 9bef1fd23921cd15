package linematch

import (
	"context"
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestCompileBoundsPatterns(t *testing.T) {
	for _, expr := range []string{
		strings.Repeat("x", MaxPattern), `.{0,1000}foo`, `\w{1,1000}`, `(?:\d{1,3}\.){3}\d{1,3}`, "(a?){400}b",
		"(?:x{10}){100}", "(error.{0,200}){5}", "(?:abc){504}", "(abcdefghijkl){1000}", "((a?){30}){30}b",
		strings.Repeat("ab|", MaxPattern/3) + "c",
	} {
		if _, err := Compile(expr, false); err != nil {
			t.Errorf("pattern %.40q: %v", expr, err)
		}
	}
	for expr, want := range map[string]string{
		"":                                   "empty",
		"(":                                  "missing closing )",
		strings.Repeat("x", MaxPattern+1):    "at most 4096",
		"(abcdefghijklmnopqrstuvwxyz){1000}": "more than 20000 steps",
	} {
		_, err := Compile(expr, true)
		if tools.CodeOf(err) != tools.CodeInvalidArguments || !strings.Contains(err.Error(), want) {
			t.Errorf("pattern %.40q: error %v, want %q", expr, err, want)
		}
	}
}

// The bound admits what package regexp compiles to that many instructions.
func TestProgramSize(t *testing.T) {
	for _, expr := range []string{
		"(?:x{10}){100}", "(error.{0,200}){5}", "((a?){30}){30}b", `(?:\d{1,3}\.){3}\d{1,3}`, "((a{9}?b{2,}c*|[a-c]x+|^$){9}d{0,9}){9}",
	} {
		tree, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		got := programSize(tree)
		prog, err := syntax.Compile(tree.Simplify())
		if n := len(prog.Inst) - 2; err != nil || got < n*9/10 || got > n*11/10 {
			t.Errorf("%s: got %d, want about %d", expr, got, n)
		}
	}
}

// A large pattern would take a minute for this text, so its search must end with the context.
func TestLargePatternEndsWithContext(t *testing.T) {
	p, err := Compile("((a?){30}){30}[^a]", false) // no literal that the text lacks
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"one line": strings.Repeat("a", 1<<20), "lines": strings.Repeat(strings.Repeat("a", 99)+"\n", 1<<20/100)} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := p.Matches(ctx, []byte(text), func(Match) bool { return true })
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestShow(t *testing.T) {
	long := strings.Repeat("é", 5_000)
	for _, row := range []struct {
		name, line, before, text string // the match follows before
		cut                      bool
	}{
		{"short", "one match here", "one ", "one match here", false},
		{"longest", long[:2*MaxShown], "", long[:2*MaxShown], false},
		{"one too long", long[:2*MaxShown+2], "", long[:2*MaxShown] + "…", true},
		{"at the end", long + "match", long, "…" + long[:2*leadRunes] + "match", true},
		{"in the middle", long + "match" + long, long, "…" + long[:2*leadRunes] + "match" + long[:2*(MaxShown-leadRunes-5)] + "…", true},
		{"wide runes", strings.Repeat("😀", 5_000), strings.Repeat("😀", 2_000), "…" + strings.Repeat("😀", MaxShown) + "…", true},
		{"invalid", "a\xffb", "a", "a\uFFFDb", false},
	} {
		src := "first\n" + row.line + "\nlast"
		start := int64(len("first\n"))
		text, cut, err := Show(strings.NewReader(src), start, start+int64(len(row.line)), start+int64(len(row.before)))
		if err != nil || text != row.text || cut != row.cut {
			t.Errorf("%s: %.60q (%d bytes), %v, %v; want %.60q (%d bytes), %v", row.name, text, len(text), cut, err, row.text, len(row.text), row.cut)
		}
	}
}
