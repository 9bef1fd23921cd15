package linematch

import (
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools"
)

func TestCompileBoundsPatterns(t *testing.T) {
	for _, expr := range []string{
		strings.Repeat("x", MaxPattern), `.{0,1000}foo`, `\w{1,1000}`, `(?:\d{1,3}\.){3}\d{1,3}`, "(a?){400}b",
		strings.Repeat("ab|", MaxPattern/3) + "c",
	} {
		if _, err := Compile(expr, false); err != nil {
			t.Errorf("pattern %.40q: %v", expr, err)
		}
	}
	for expr, want := range map[string]string{
		"":                                "empty",
		"(":                               "missing closing )",
		strings.Repeat("x", MaxPattern+1): "at most 4096",
		"((a?){30}){30}b":                 "too large",
		"(abcdefghijkl){1000}":            "too large",
	} {
		_, err := Compile(expr, true)
		if tools.CodeOf(err) != tools.CodeInvalidArguments || !strings.Contains(err.Error(), want) {
			t.Errorf("pattern %.40q: error %v, want %q", expr, err, want)
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
