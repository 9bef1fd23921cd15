package offload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload/grep"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/tools"
)

// naiveGrep splits the content and matches each line. Grep must agree with it.
func naiveGrep(re *regexp.Regexp, content []byte) (lines []int64) {
	number := int64(0)
	for line := range bytes.Lines(content) {
		number++
		if re.Match(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))) {
			lines = append(lines, number)
		}
	}
	return lines
}

// searchAll searches without the limits of Grep.
func searchAll(t *testing.T, content []byte, expr string, ignoreCase bool) (found []grep.Line) {
	t.Helper()
	p, err := grep.Compile(expr, ignoreCase)
	if err != nil {
		t.Fatal(err)
	}
	c := contentOf(t, content)
	s := &grep.Search{Pattern: p, Source: c, Found: func(l grep.Line) (bool, error) { found = append(found, l); return true, nil }}
	if err := s.Run(t.Context(), grep.Parts(t.Context(), c, 0, 1<<20)); err != nil {
		t.Fatal(err)
	}
	return found
}

func contentOf(t testing.TB, content []byte) blockContent {
	t.Helper()
	w := index.NewIndexer()
	for block := range slices.Chunk(content, index.BlockSize) {
		w.Block(block)
	}
	x, _ := w.Finish()
	return blocks.NewContent(bytes.NewReader(content), x)
}

func numbers(found []grep.Line) (lines []int64) {
	for _, m := range found {
		lines = append(lines, m.Number)
	}
	return lines
}

var grepPatterns = []string{
	"a", "b$", "^a", "^$", "^", "$", "a|b", "foo|bar|baz", "error", "[^a]", `\s`, `\S+`, `(?s)a.b`, `a\nb`, `\n`, `(?m)^b$`, `\Aa`, `a\z`,
	`\bx\b`, `\Bx`, ".", ".*", "x{2,3}", "(?:ab)+c", "(a|)(b|)", "日本", "[日a]b", `\xff`, `�`, `[^\x00-\x7f]`, "k", "straße|s", `\w+\s*=\s*\d+`,
	`\r$`, `c\r?$`, "(foo)?", "()", "(?i)FoO", "[[:upper:]]", `(?-i)A`, `\Q.*\E`, `a.?b`,
}

func FuzzGrep(f *testing.F) {
	for i, p := range grepPatterns {
		f.Add([]byte("a\nb\r\nfoo bar\n\n日本x k\u212a ſ\xff\nA xx = 12"), p, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, content []byte, expr string, ignoreCase bool) {
		if expr == "" || len(expr) > 60 || strings.Count(expr, "{") > 1 { // naiveGrep would take minutes
			return
		}
		naive := expr
		if ignoreCase {
			naive = "(?i)" + naive
		}
		re, err := regexp.Compile(naive)
		if _, got := grep.Compile(expr, ignoreCase); (got == nil) != (err == nil) {
			if err == nil && (strings.Contains(got.Error(), "too large") || strings.Contains(got.Error(), "at most")) {
				return
			}
			if ignoreCase { // "(?i)" before ")" makes another pattern
				return
			}
			t.Fatalf("Compile(%q, %v) is %v, want %v", expr, ignoreCase, got, err)
		}
		if err != nil {
			return
		}
		// Large enough for several parts, so that lines cross their ends.
		for _, text := range [][]byte{content, bytes.Repeat(append(content, 'z'), 1+min(40_000/(len(content)+1), 50))} {
			want := naiveGrep(re, text)
			found := searchAll(t, text, expr, ignoreCase)
			if got := numbers(found); !slices.Equal(got, want) {
				t.Fatalf("grep %q (ignore case %v) in %.200q finds lines %v, want %v", expr, ignoreCase, text, got, want)
			}
			for _, m := range found {
				if loc := re.FindIndex(text[m.Start:m.End]); loc == nil || int64(loc[0]) != m.At[0]-m.Start {
					t.Fatalf("grep %q in %.200q: the match in line %d is at %d, want %v", expr, text, m.Number, m.At[0]-m.Start, loc)
				}
			}
		}
	})
}

// Literals are searched before the regexp; a line without one must not match.
func TestGrepLiteralsAndCases(t *testing.T) {
	text := []byte("FOO bar\nfoo BAR\n\u212aelvin\nma\u017f\u017fe\nSTRASSE\n\xff\n\ufffd\nÄRGER\n")
	for _, row := range []struct {
		expr       string
		ignoreCase bool
	}{
		{"kelvin", true}, {"masse", true}, {"ß", true}, {"ärger", true}, {"(?i:foo)|bar", false}, {"(?i:zzz)|bar", false}, {"bar|(?i:zzz)", false},
		{"\ufffd", false}, {`x|\x{fffd}`, false}, {"foo|bar|baz", true}, {"(foo )+", true}, {"(?:foo ){1,3}BAR", false}, {"(foo|(bar))", false},
	} {
		expr := row.expr
		if row.ignoreCase {
			expr = "(?i)" + expr
		}
		want := naiveGrep(regexp.MustCompile(expr), text)
		if got := numbers(searchAll(t, text, row.expr, row.ignoreCase)); !slices.Equal(got, want) {
			t.Errorf("grep %q (ignore case %v) finds lines %v, want %v", row.expr, row.ignoreCase, got, want)
		}
	}
}

func TestGrepAcrossPartsAndLongLines(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("one goroutine, and slow under the race detector")
	}
	var text bytes.Buffer
	for i := range 3 {
		fmt.Fprintf(&text, "short %d needle\n", i)
		text.WriteString(strings.Repeat("abcdefg ", 70_000*(i+1))) // 0.5 to 1.7 MB
		if i%2 == 0 {
			text.WriteString("needle X9")
		}
		text.WriteString(strings.Repeat(" tail", 100_000) + "\n\n")
	}
	content := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	for _, expr := range []string{"needle", "X9", "needle X[0-9]", "^short [1-3]", "tail$", "^$", "(?i)NEEDLE x", "abc.*X9", "q", "g needle|nothing"} {
		want := naiveGrep(regexp.MustCompile(expr), content)
		found := searchAll(t, content, expr, false)
		if got := numbers(found); !slices.Equal(got, want) {
			t.Errorf("grep %q finds lines %v, want %v", expr, got, want)
		}
		re := regexp.MustCompile(expr)
		for _, m := range found {
			if loc := re.FindIndex(content[m.Start:m.End]); loc == nil || m.At[0]-m.Start != int64(loc[0]) {
				t.Errorf("grep %q: the match in line %d is at %d, want %v", expr, m.Number, m.At[0]-m.Start, loc)
			}
		}
	}
}

// A literal in a long line must be found at any part border.
func TestGrepLiteralAtEveryPartBorder(t *testing.T) {
	t.Parallel()
	for shift := range 8 {
		content := append(bytes.Repeat([]byte("x"), 3*1<<20-shift), "needle and more\nneedle"...)
		if got := numbers(searchAll(t, content, "needle", false)); !slices.Equal(got, []int64{1, 2}) {
			t.Errorf("shifted by %d, the needle is found in lines %v, want 1 and 2", shift, got)
		}
	}
}

func TestGrepOfALongLine(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	line := bytes.Repeat([]byte(`{"id":1234567,"name":"somebody"},`), 3<<20/33)
	copy(line[2<<20:], `"target":"here"`)
	r := stored(t, line)
	r.cfg.GrepTime = time.Hour // a slow machine must not stop the search
	for _, expr := range []string{`"target"`, `"target":"[a-z]+"`, `(?i)TARGET`} {
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: expr})
		if err != nil {
			t.Fatal(err)
		}
		if res.Matches != 1 || res.Searched != 0 || len(res.Lines) != 1 || !strings.Contains(res.Lines[0].Text, `"target":"here"`) {
			t.Fatalf("grep %q finds %d matches: %.300s", expr, res.Matches, res.Text())
		}
		page, err := r.GetByID(t.Context(), "s", "a", res.Lines[0].Offsets[0], 100)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile("^(" + expr + ")").MatchString(page.Content) {
			t.Errorf("the offset of the match leads to %q", page.Content)
		}
	}
	res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "nowhere"})
	if err != nil || res.Matches != 0 || res.Text() != "Found 0 match(es) for pattern 'nowhere' in knowledge#a (1 total lines)" {
		t.Errorf("a literal that is not there gives %q, %v", res.Text(), err)
	}
	if res.Lines == nil {
		t.Error("no lines are null in JSON, which clients can not walk through")
	}
}

func TestGrepText(t *testing.T) {
	r := stored(t, []byte("one\ntwo\nthree\nfour\nfive\nsix\nseven\n"))
	for _, row := range []struct {
		q    GrepQuery
		want string
	}{
		{GrepQuery{Pattern: "t.*o"}, "Found 1 match(es) for pattern 't.*o' in knowledge#a (7 total lines)\n\n2: two"},
		{GrepQuery{Pattern: "o", ContextAfter: 1}, "Found 3 match(es) for pattern 'o' in knowledge#a (7 total lines)\n\n1: one\n2: two\n3- three\n4: four\n5- five"},
		{GrepQuery{Pattern: "^(one|six)", ContextBefore: 1, ContextAfter: 1}, "Found 2 match(es) for pattern '^(one|six)' in knowledge#a (7 total lines)\n\n1: one\n2- two\n--\n5- five\n6: six\n7- seven"},
		{GrepQuery{Pattern: "SEVEN", IgnoreCase: true, ContextAfter: 9}, "Found 1 match(es) for pattern 'SEVEN' in knowledge#a (7 total lines)\n\n7: seven"},
		{GrepQuery{Pattern: "nothing"}, "Found 0 match(es) for pattern 'nothing' in knowledge#a (7 total lines)"},
		{GrepQuery{Pattern: "^$"}, "Found 0 match(es) for pattern '^$' in knowledge#a (7 total lines)"}, // a newline ends the text
		{GrepQuery{Pattern: "o", MaxResults: 3}, "Found 3 match(es) for pattern 'o' in knowledge#a (7 total lines)\n\n1: one\n2: two\n--\n4: four"},
		{GrepQuery{Pattern: "o", MaxResults: 1, ContextAfter: 1}, "Found 3 match(es) for pattern 'o' in knowledge#a (7 total lines)\n\n1: one\n2- two\n\n[only the first 1 matching line(s) are shown; continue with cursor=\"at6+0\" (line 2), or narrow the pattern]"},
	} {
		res, err := r.Grep(t.Context(), "s", "a", row.q)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Text(); got != row.want {
			t.Errorf("grep %+v is\n%s\nwant\n%s", row.q, got, row.want)
		}
	}
}

func TestGrepLimits(t *testing.T) {
	t.Parallel()
	r := stored(t, []byte(strings.Repeat("match\n", 300)))
	for _, row := range []struct {
		max, want int
		limited   bool
	}{{0, 100, true}, {299, 299, true}, {300, 300, false}, {1000, 300, false}} {
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "match", MaxResults: row.max})
		if err != nil {
			t.Fatal(err)
		}
		if res.Matches != 300 || res.Shown != row.want || res.Limited != row.limited || len(res.Lines) != row.want {
			t.Errorf("max_results %d gives %d matches in %d lines, limited %v; want %d, %v", row.max, res.Matches, len(res.Lines), res.Limited, row.want, row.limited)
		}
	}
	// The text is bounded regardless of the number of matches, and says so.
	r = stored(t, []byte(strings.Repeat(strings.Repeat("match ", 1000)+"\n", 300)))
	res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "match", MaxResults: 10_000, ContextAfter: 100, ContextBefore: 100})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(res.Text()); n > 15_000 || !res.Limited || res.Matches == 0 {
		t.Errorf("a grep that matches everywhere has %d bytes, %d matches, limited %v", n, res.Matches, res.Limited)
	}
	r = stored(t, []byte("match\n"+strings.Repeat(strings.Repeat("context ", 50)+"\n", 300)))
	res, err = r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "match", ContextAfter: 100})
	if err != nil || len(res.Text()) > PageChars || len(res.Lines) >= 101 || !strings.Contains(res.Text(), "there is more context than shown") {
		t.Errorf("a match with much context has %d bytes, %d lines, %v", len(res.Text()), len(res.Lines), err)
	}
	r = stored(t, []byte(strings.Repeat(strings.Repeat("match ", 1000)+"\n", 300)))
	res, err = r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "match$", ContextAfter: 100})
	if err != nil || res.Matches != 0 {
		t.Errorf("%d matches, %v", res.Matches, err)
	}
}

func TestGrepShowsLongLinesAroundTheMatch(t *testing.T) {
	line := strings.Repeat("é", 5000) + "NEEDLE" + strings.Repeat("日", 5000)
	r := stored(t, []byte("first\n"+line+"\nlast"))
	res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "NEEDLE", ContextBefore: 1, ContextAfter: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := "…" + strings.Repeat("é", 300) + "NEEDLE" + strings.Repeat("日", grep.MaxShown-306) + "…"
	if got := res.Lines[1]; got.Text != want || !got.Cut || got.Offsets[0] != 5006 {
		t.Errorf("line is %+v, want %s at 5006", got, want)
	}
	res, err = r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "^last", ContextBefore: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.Lines[0].Text, strings.Repeat("é", grep.MaxShown)+"…"; got != want {
		t.Errorf("a long line of context is %s", got)
	}
}

func TestGrepRefusesBadPatterns(t *testing.T) {
	r := stored(t, []byte("x"))
	for expr, text := range map[string]string{
		"":                                   "empty",
		"(":                                  "missing closing )",
		"(?=x)":                              "no look-around",
		`(x)\1`:                              "no look-around",
		strings.Repeat("x", 5000):            "at most 4096",
		"((a{100}){100}){10}":                "repeat count",
		"(abcdefghijklmnopqrstuvwxyz){1000}": "too large",
	} {
		_, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: expr})
		wantCode(t, err, tools.CodeInvalidArguments, text)
	}
	_, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "x", ContextAfter: -1})
	wantCode(t, err, tools.CodeInvalidArguments, "negative")
}

// hostilePattern has a state for each combination of the letters before a place in
// hostileText, so it takes microseconds for each byte.
const hostilePattern = `(a[ab]{400})?[cd]{2}`

func hostileText(lines, length int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for range lines {
		for range length {
			b.WriteByte("ab"[r.IntN(2)])
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// A search with a hostile pattern must stop at its timeout and say so.
func TestGrepEndsInTime(t *testing.T) {
	t.Parallel()
	store := newFakeStore(StoreConfig{})
	putArtifact(t, store, "s", "lines", hostileText(20_000, 200))
	putArtifact(t, store, "s", "line", hostileText(1, 4<<20))
	putArtifact(t, store, "s", "half a part", hostileText(1, 512<<10))
	putArtifact(t, store, "s", "as", bytes.Repeat([]byte("a"), 4<<20))
	r := NewReader(store, ReaderConfig{GrepTime: 100 * time.Millisecond})
	for _, id := range []string{"lines", "line", "half a part"} {
		// The context is a safety net: without GrepTime each search takes far longer.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		res, err := r.Grep(ctx, "s", id, GrepQuery{Pattern: hostilePattern})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if res.Matches != 0 || !strings.Contains(res.Text(), "the search was stopped: it reached its limit of 100ms of processor time. Lines 1 to ") {
			t.Errorf("grep of %s gives %s", id, res.Text())
		}
	}
	res, err := r.Grep(t.Context(), "s", "as", GrepQuery{Pattern: `a.*(a?){400}b`})
	if err != nil || !strings.Contains(res.Text(), "write .{0,200} instead") {
		t.Errorf("grep with .* gives %v, %v", res, err)
	}
}

// A wrong cursor is an error also if its search has no time left.
func TestGrepAtAWrongCursorWithoutTime(t *testing.T) {
	r := stored(t, []byte("text\n"))
	r.cfg.GrepTime = time.Nanosecond
	_, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "x", Cursor: "at100+0"})
	wantCode(t, err, tools.CodeInvalidArguments, "not one that an answer")
}

// A search that was stopped says where it continues: after the matches that it counted.
func TestStoppedGrepContinues(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	r := stored(t, []byte("1 cc\n2 cc\n"+string(hostileText(20_000, 200))))
	r.cfg.GrepTime = 400 * time.Millisecond // a busy machine finds the two matches in that time
	for from, want := range map[string]int64{"": 2, "at4+0": 1} {
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: hostilePattern, Cursor: from})
		if err != nil {
			t.Fatal(err)
		}
		if !res.AtLeast || res.Matches != want || res.NextCursor == "" || !strings.Contains(res.Text(), fmt.Sprintf("to search them, continue with cursor=%q;", res.NextCursor)) {
			t.Errorf("from %s: %d matches, continue at %s: %s", from, res.Matches, res.NextCursor, res.Text())
		}
		again, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: hostilePattern, Cursor: res.NextCursor})
		if err != nil || again.Matches != 0 {
			t.Errorf("from %s, the next search counts a match again: %v, %v", from, again, err)
		}
	}
	r.cfg.GrepTime = time.Nanosecond
	res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: hostilePattern, Cursor: "at9+0"})
	if err != nil || !res.AtLeast || res.NextCursor != "" || strings.Contains(res.Text(), "continue") {
		t.Errorf("a search that made no progress gives %v, %v", res, err)
	}
}

// brokenContent fails to read at or after an offset.
type brokenContent struct {
	Content
	from int64
}

func (c brokenContent) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > c.from {
		return 0, fmt.Errorf("disk: %w", ErrCorrupt)
	}
	return c.Content.ReadAt(p, off)
}

func TestGrepReportsBrokenContent(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{
		"lines":    bytes.Repeat([]byte("some line\n"), 400_000),
		"one line": bytes.Repeat([]byte("some line "), 400_000),
	} {
		for _, expr := range []string{"nothing", "l[a-z]*n$"} {
			if _, err := grep.Artifact(t.Context(), "a", inBlocks(brokenContent{contentOf(t, text), 3 << 20}), GrepQuery{Pattern: expr}, PageChars-noteReserve); err == nil {
				t.Errorf("grep %q of %s that cannot be read succeeds", expr, name)
			}
		}
	}
}

func BenchmarkGrep100MB(b *testing.B) {
	line := "2026-11-20T10:00:00Z INFO request served path=/v1/things/%07d status=200 took=12ms\n"
	var buf bytes.Buffer
	for i := 0; buf.Len() < 100<<20; i++ {
		fmt.Fprintf(&buf, line, i)
	}
	content := contentOf(b, buf.Bytes())
	file := filepath.Join(b.TempDir(), "content")
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("reading alone", func(b *testing.B) {
		b.SetBytes(content.Size())
		for b.Loop() {
			if _, err := io.Copy(io.Discard, struct{ io.Reader }{io.NewSectionReader(content, 0, content.Size())}); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, row := range []struct{ name, expr string }{
		{"literal", "things/0999999"}, {"ignore case", "(?i)THINGS/0999999"}, {"literal and class", `things/09999[89]9\b`},
		{"alternation", "panic|fatal|0999999"}, {"no literal", `[x-z]{3}\d`}, {"every line", `status=[245]\d\d`}, {"every tenth line", `9 status=200`}, {"class in every tenth line", `\d9 status=[24]00`},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.SetBytes(content.Size())
			var ours, theirs time.Duration
			for b.Loop() {
				begin := time.Now()
				if _, err := grep.Artifact(b.Context(), "a", content, GrepQuery{Pattern: row.expr}, PageChars-noteReserve); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(begin)
				b.StopTimer()
				theirs += timeOfRipgrep(b, row.expr, file)
				b.StartTimer()
			}
			if theirs > 0 {
				b.ReportMetric(float64(ours)/float64(theirs), "rg-j1-ratio")
			}
		})
	}
	b.Run("20 lines of the middle", func(b *testing.B) {
		for b.Loop() {
			if _, err := readLines(b.Context(), Record{}, content, LinesQuery{StartLine: 600_000, EndLine: 600_019}, 40_000); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// timeOfRipgrep is the time of one thread of ripgrep, or 0 if it is not installed.
func timeOfRipgrep(b *testing.B, expr, file string) time.Duration {
	b.Helper()
	program, err := exec.LookPath("rg")
	if err != nil {
		return 0
	}
	begin := time.Now()
	out, err := exec.Command(program, "-j1", "-c", "-e", expr, file).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !(ok && exit.ExitCode() == 1) { // 1: no match
		b.Fatalf("rg: %v, %s", err, out)
	}
	return time.Since(begin)
}

// A long line shows the parts around its first matches, says how many there are and
// where, and the search continues in it.
func TestGrepCountsTheMatchesOfALongLine(t *testing.T) {
	var line strings.Builder
	for i := range 50 {
		fmt.Fprintf(&line, `{"id":%d,"text":"%s"},`, i, strings.Repeat("é", 1000))
	}
	r := stored(t, []byte("[\n"+line.String()))
	res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: `"id":\d+`})
	if err != nil {
		t.Fatal(err)
	}
	got := res.Lines[0]
	if res.Matches != 50 || len(res.Lines) != 1 || got.Hits != 50 || len(got.Offsets) != 50 || got.NextCursor == "" {
		t.Fatalf("%d matches, lines %+.300v", res.Matches, res.Lines)
	}
	for _, want := range []string{"Found 50 match(es)", `"id":0,`, `"id":1,`, "this line has 50 matches, at the offsets 3 ", fmt.Sprintf("continue with cursor=%q]", got.NextCursor)} {
		if !strings.Contains(res.Text(), want) {
			t.Errorf("the text lacks %s:\n%.3000s", want, res.Text())
		}
	}
	if n := utf8.RuneCountInString(res.Text()); n > 5_000 {
		t.Errorf("the text has %d characters", n)
	}
	seen := int64(strings.Count(got.Text, `"id":`))
	for next := got.NextCursor; next != ""; {
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: `"id":\d+`, Cursor: next})
		if err != nil {
			t.Fatal(err)
		}
		if res.Matches != 50-seen || res.Lines[0].Line != 2 {
			t.Fatalf("cursor %s gives %d matches, want %d", next, res.Matches, 50-seen)
		}
		seen += int64(strings.Count(res.Lines[0].Text, `"id":`))
		next = res.Lines[0].NextCursor
	}
	if seen != 50 {
		t.Errorf("all answers together show %d matches, want 50", seen)
	}
}

// Matches that are so dense that all known positions are shown can be continued too.
func TestGrepContinuesAfterDenseMatches(t *testing.T) {
	t.Parallel()
	r := stored(t, []byte(strings.Repeat(`{"id":7},`, 5_000)))
	seen := map[int64]bool{}
	for next, calls := "", 0; calls == 0 || next != ""; calls++ {
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: `"id"`, Cursor: next})
		if err != nil || calls > 5_000 {
			t.Fatalf("call %d: %v", calls, err)
		}
		line := res.Lines[0]
		if line.Cut && line.Hits > int64(len(line.Offsets)) && (line.NextCursor == "" || line.NextCursor == next) {
			t.Fatalf("cursor %s: %d matches, but the next one is %s", next, line.Hits, line.NextCursor)
		}
		for _, at := range line.Offsets {
			seen[at] = true
		}
		next = line.NextCursor
	}
	if len(seen) != 5_000 {
		t.Errorf("all answers together have %d matches, want 5000", len(seen))
	}
}

func TestGrepContinues(t *testing.T) {
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "é line %d match\n", i)
	}
	r := stored(t, []byte(text.String()))
	lines, from := 0, ""
	for {
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "match", MaxResults: 300, Cursor: from})
		if err != nil {
			t.Fatal(err)
		}
		if res.Matches != int64(1000-lines) || res.Lines[0].Line != int64(lines+1) || res.Lines[0].Text != fmt.Sprintf("é line %d match", lines) {
			t.Fatalf("cursor %s gives %d matches from %+v on", from, res.Matches, res.Lines[0])
		}
		if (from != "") != strings.Contains(res.Text(), "earlier answers have the matches before it") {
			t.Errorf("cursor %s: %v", from, res.Notes)
		}
		lines += res.Shown
		if from = res.NextCursor; from == "" {
			break
		}
	}
	if lines != 1000 {
		t.Errorf("all answers together have %d lines, want 1000", lines)
	}
	_, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "match", Cursor: "at1000000+0"})
	wantCode(t, err, tools.CodeInvalidArguments, "not one that an answer")
}

func TestGrepSaysWhyNothingMatches(t *testing.T) {
	r := stored(t, []byte("Error: naïve(1)\r\nend\r\n"))
	for expr, want := range map[string]string{
		"error":      "with ignore_case=true there are 1 match(es), the first in line 1",
		`na\wve`:     "know only ASCII",
		"e{,3}x":     "write {0,n}",
		"1)\\nend":   "",
		"naïve(1)":   "as literal text, with escaped special characters, there are 1 match(es), the first in line 1",
		`end\|more`:  "where \\| is the character |; with end|more there are 1 match(es), the first in line 2",
		`\<end\>`:    `with \bend\b there are 1 match(es)`,
		"end\\nmore": "each line is matched separately",
	} {
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: expr})
		if want == "" {
			wantCode(t, err, tools.CodeInvalidArguments, "unexpected )")
			continue
		}
		if err != nil || res.Matches != 0 || !strings.Contains(res.Text(), want) {
			t.Errorf("grep %q gives %v\n%s\nwant %s", expr, err, res.Text(), want)
		}
	}
}

// A line ends before its "\r\n" everywhere.
func TestGrepOfWindowsLines(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	r := stored(t, []byte("the end\r\n"+long+" end\r\nnext\r\nlast end\n"))
	res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: "end$", ContextAfter: 1})
	if err != nil || res.Matches != 3 || strings.Contains(res.Text(), "\r") || !strings.Contains(res.Text(), "3- next\n4: last end") {
		t.Errorf("%v, %.3000s", err, res.Text())
	}
	if res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: `\r`}); err != nil || res.Matches != 0 {
		t.Errorf("%d line ends match, %v", res.Matches, err)
	}
}

// All matches are counted, and few are shown.
func TestGrepCountsPastTheLimit(t *testing.T) {
	t.Parallel()
	r := stored(t, bytes.Repeat([]byte("ab ab\n"), 100_000))
	for _, expr := range []string{"ab", "a[b-c]", "A", "b$|zz"} {
		want := int64(200_000)
		if expr == "b$|zz" {
			want = 100_000
		}
		res, err := r.Grep(t.Context(), "s", "a", GrepQuery{Pattern: expr, IgnoreCase: expr == "A", MaxResults: 2})
		if err != nil || res.Matches != want || res.AtLeast || res.Shown != 2 {
			t.Errorf("grep %q counts %d matches and shows %d, %v", expr, res.Matches, res.Shown, err)
		}
	}
}
