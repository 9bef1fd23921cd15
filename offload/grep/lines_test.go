package grep

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
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
	// The text has another state at almost each place, and there is no literal that it lacks.
	p, err := Compile("(a[ab]{900})?[cd]{2}", false)
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 8<<20)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(line); i++ {
		line[i] = "ab"[r.IntN(2)]
	}
	lines := bytes.Clone(line)
	for i := 99; i < len(lines); i += 100 {
		lines[i] = '\n'
	}
	for name, text := range map[string][]byte{"one line": line, "lines": lines} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := p.All(ctx, text, 0, func(int, int) bool { return true })
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDFAFindsTheSameLines: the states give what package regexp gives, with assertions, cases,
// large classes, bytes that are not UTF-8, and after the dfa forgot its states.
func TestDFAFindsTheSameLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "K", "k", "\u212a", "ſ", "é", "漢", "😀", "\xff", "\xe2\x84", "\ufffd", "0", "_", " ", "-", "\r", "\n", "\n"}
	var text strings.Builder
	for range 20_000 {
		text.WriteString(pieces[r.IntN(len(pieces))])
	}
	lines := strings.Split(text.String(), "\n")
	exprs := []string{
		`[ab]{3}\d`, `^[^a]*$`, `\b[ak]+\b`, `\B\d\B`, `(?i)[k]s?é`, `(?i)K`, `\p{L}{5}`, `[^\p{L}]{4}`, `.{9}`, `^$`, `\A[a-z]`, `[0-9_]\z`, `\x{fffd}`,
		`a.*b.*[0-9]`, `(a|b|é)*_`, `[ab].{12}[0-9]`, `(a?){9}[b-d]{2}`, `x*`, `(?:^|[ -])[ab](?:$|[ -])`,
	}
	for range 150 {
		exprs = append(exprs, randomPattern(r, 3))
	}
	for _, expr := range exprs {
		p, err := Compile(expr, false)
		if err != nil {
			t.Fatal(err)
		}
		plain := regexp.MustCompile(expr)
		for _, forget := range []bool{false, true} {
			for n, line := range lines {
				if forget && n%7 == 0 {
					p.dfa.forget()
				}
				at := p.dfa.from(t.Context(), []byte(line), 0)
				if got, want := at >= 0, plain.MatchString(line); got != want && !p.dfa.useless {
					t.Fatalf("%s: line %d, %q: got %v, want %v", expr, n+1, line, got, want)
				}
			}
			p.dfa.useless = false
		}
	}
}

// randomPattern returns a pattern with few literals.
func randomPattern(r *rand.Rand, depth int) string {
	atoms := []string{
		`a`, `[ab]`, `[^a]`, `.`, `\d`, `\w`, `\W`, `\s`, `\pL`, `\PL`, `[é-漢]`, `(?i:k)`, `(?i:[s-z])`, `(?i:É)`, `\x{fffd}`, `[[:punct:]]`,
		`^`, `$`, `\b`, `\B`, `\A`, `\z`, `(?m:^)`, `(?m:$)`, `(?s:.)`, `()`,
	}
	if depth == 0 || r.IntN(4) == 0 {
		return atoms[r.IntN(len(atoms))]
	}
	a, b := randomPattern(r, depth-1), randomPattern(r, depth-1)
	switch r.IntN(5) {
	case 0:
		return "(?:" + a + "|" + b + ")"
	case 1:
		return "(" + a + ")" + []string{"*", "+", "?", "{2}", "{1,3}", "*?", "+?"}[r.IntN(7)]
	}
	return a + b
}

// TestDFAKeepsLittle: states of many threads take bounded memory, also after much text that made
// the dfa look useful.
func TestDFAKeepsLittle(t *testing.T) {
	p, err := Compile(`[ab][ab0]{999}[ab0]{999}[ab0]{999}[1-9]`, false)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 6_000)
	for i := range text {
		text[i] = "ab0"[r.IntN(3)]
	}
	p.dfa.searched = 1 << 30
	if at := p.dfa.from(t.Context(), text, 0); at >= 0 || p.dfa.useless {
		t.Fatalf("found %d, useless: %v", at, p.dfa.useless)
	}
	size := 0
	for _, state := range p.dfa.states {
		size += len(state)
	}
	if size > 2*maxSize {
		t.Errorf("the states take %d bytes", size)
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
		{"invalid", "a\xffb", "a", `a\xffb`, false},
	} {
		src := "first\n" + row.line + "\nlast"
		start := int64(len("first\n"))
		text, cut, err := Show(strings.NewReader(src), start, start+int64(len(row.line)), start+int64(len(row.before)))
		if err != nil || text != row.text || cut != row.cut {
			t.Errorf("%s: %.60q (%d bytes), %v, %v; want %.60q (%d bytes), %v", row.name, text, len(text), cut, err, row.text, len(row.text), row.cut)
		}
	}
}

// naiveCount counts the matches of each line that are not empty, or one.
func naiveCount(re *regexp.Regexp, text string) (matches int64, lines []Line) {
	start := int64(0)
	number := int64(0)
	for whole := range strings.Lines(text) {
		number++
		line := strings.TrimSuffix(whole, "\n")
		found := Line{Number: number, Start: start, End: start + int64(len(line))}
		for _, m := range re.FindAllStringIndex(line, -1) {
			if m[0] < m[1] {
				found.Hits++
			}
			if found.At == nil || m[0] < m[1] {
				found.At = append(found.At, start+int64(m[0]))
			}
		}
		if found.At != nil {
			found.Hits = max(found.Hits, 1)
			matches += found.Hits
			found.At = found.At[:min(len(found.At), maxHits)]
			lines = append(lines, found)
		}
		start += int64(len(whole))
	}
	return matches, lines
}

func search(t *testing.T, expr, text string) *Search {
	t.Helper()
	p, err := Compile(expr, false)
	if err != nil {
		t.Fatal(err)
	}
	s := &Search{Pattern: p, Source: strings.NewReader(text), longest: 100 << 10}
	return s
}

// All matches are counted and found, in short lines and in lines of any length.
func TestSearchCountsAllMatches(t *testing.T) {
	slow.Test(t)
	mixed := "foo bar foo\n\nxfoox  a1 b22\n" + strings.Repeat("日本a ", 9) + "\naaaa\nfoo"
	long := strings.Repeat(mixed[:11]+" a1,b22 é;", 8_000) // 180 KB, one line
	texts := map[string]string{"short": mixed, "empty": "", "newline": "\n", "long": "foo a1\n" + long + "\nfoo", "medium": strings.Repeat("foo a1 ", 3_000) + "\nfoo"}
	for _, expr := range []string{
		"foo", "fo+", `\bfoo\b`, `[a-z]\d+`, `\d+`, "^foo", "foo$", "^", "$", "x*", "a|b2", "aa", `\w+`, ".", ".+", "日", `[^a-z]+`, `(foo|bar) `, `\B\d`, `;f`, `\bb`, "zzz", "o{2}", `é;(foo|$)`,
	} {
		re := regexp.MustCompile(expr)
		for name, text := range texts {
			want, wantLines := naiveCount(re, text)
			for _, keep := range []int{1 << 30, 1} {
				s := search(t, expr, text)
				var lines []Line
				s.Found = func(l Line) (bool, error) { lines = append(lines, l); return len(lines) < keep, nil }
				if err := s.Run(t.Context(), Parts(t.Context(), s.Source, 0, 64<<10)); err != nil {
					t.Fatal(err)
				}
				if s.Matches != want {
					t.Errorf("%q in %s: %d matches, want %d (keep %d)", expr, name, s.Matches, want, keep)
				}
				if wantLines := wantLines[:min(len(wantLines), keep)]; !reflect.DeepEqual(lines, wantLines) {
					t.Errorf("%q in %s: lines %+.300v, want %+.300v", expr, name, lines, wantLines)
				}
			}
		}
	}
}

// A search that was stopped and the searches that continue at its Next count each match once.
func TestSearchContinuesAtNext(t *testing.T) {
	text := []byte(strings.Repeat(strings.Repeat("a", 40)+"cc"+strings.Repeat("b", 40)+"cc\n", 3_000))
	for _, row := range []struct {
		pattern string
		show    int // lines before the search only counts
		want    int64
	}{{"c{2}", 1 << 20, 6_000}, {"c{2}", 1, 6_000}, {"x?", 1 << 20, 3_000}, {"x?", 1, 3_000}, {"b|(c.)", 1, 3_000 * 42}} {
		p, err := Compile(row.pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		total, stops, next := int64(0), 0, int64(0)
		for done := false; !done; {
			ctx, cancel := context.WithCancel(t.Context())
			start := bytes.LastIndexByte(text[:next], '\n') + 1
			lines, last := 0, next
			s := &Search{Pattern: p, Source: bytes.NewReader(text), From: next, Searched: int64(start), Lines: int64(bytes.Count(text[:start], []byte("\n")))}
			s.Found = func(line Line) (bool, error) {
				if lines++; lines == min(row.show, 50) {
					cancel() // the search notices that later
				}
				return lines < row.show, nil
			}
			err := s.Run(ctx, Parts(t.Context(), s.Source, s.Searched, 100<<10))
			cancel()
			done = err == nil
			total += s.Matches
			if next = s.Next; !done {
				if stops++; next <= last {
					t.Fatalf("%s: the search from %d continues at %d", row.pattern, last, next)
				}
			}
		}
		if total != row.want || stops == 0 {
			t.Errorf("%s, %d lines: %d matches after %d stops, want %d", row.pattern, row.show, total, stops, row.want)
		}
	}
}
