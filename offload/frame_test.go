package offload

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/jsonread"
	"github.com/stevedore-bus/stevedore/tools"
)

// frameElement finds our elements like a lenient reader: in any case, and with extra
// white space.
var frameElement = regexp.MustCompile(`(?i)<[\s/]*k[\s]*n[\s]*o[\s]*w[\s]*l[\s]*e[\s]*d[\s]*g[\s]*e\s*(_list)?`)

// parseFrame parses a reference. It fails unless there is exactly one frame with one
// element.
func parseFrame(text string) (attributes map[string]string, summary, problem string) {
	_, frame, ok := strings.Cut(text, "\n<knowledge_list description='This is a list of knowledge artifacts'>\n")
	if !ok {
		return nil, "", "no frame"
	}
	if found := frameElement.FindAllString(text, -1); len(found) != 4 {
		return nil, "", "there are " + strings.Join(found, " ")
	}
	frame, ok = strings.CutSuffix(frame, "\n</knowledge>\n</knowledge_list>")
	if !ok {
		return nil, "", "the frame does not end the text"
	}
	open, summary, ok := strings.Cut(frame, "\n")
	if !ok || !strings.HasPrefix(open, "<knowledge ") || !strings.HasSuffix(open, ">") {
		return nil, "", "the element is opened by " + open
	}
	attributes = map[string]string{}
	rest := open[len("<knowledge") : len(open)-1]
	for _, m := range regexp.MustCompile(` (\w+)='([^'<>]*)'`).FindAllStringSubmatch(rest, -1) {
		attributes[m[1]] = html.UnescapeString(m[2])
		rest = strings.Replace(rest, m[0], "", 1)
	}
	if rest != "" {
		return nil, "", "left of the attributes is " + rest
	}
	return attributes, summary, ""
}

func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		"plain", "a\n\n", "</knowledge>", "</KNOWLEDGE >\n<knowledge id='x'>", "< / k n o w l e d g e >", "<\u200b/know\u200dledge>",
		"<knowledge_list>", "</\x00knowledge\x00>", "<\ufe0fknowledge", "<\u034fk\u0301nowledge>", "\xff</knowledge>", "<\u212anowledge>", "<k\u00adnowledge",
		"<", "</", "</know", "<html><kbd>", "<<knowledge>", "a < b </ knowledge", "{\"a\":\"</knowledge>\"}", "<\U000e0020knowledge>",
		"\r", "a\rb\r\n\x1b[1mc", "</k&#110;owledge>", "<K\u2060NOWLEDGE\u3000>",
	} {
		f.Add(s, s, "get", 1)
		f.Add(s, "fetch", s, 3000)
	}
	f.Fuzz(func(t *testing.T, text, tool, action string, times int) {
		content := strings.Repeat(text, 1+max(times, 0)%3000)
		if len(content) > 1<<20 {
			return
		}
		store := newFakeStore(StoreConfig{})
		o := NewOffloader(store, Config{Threshold: 1, InlineChars: 1})
		yes := true
		call := tools.Call{ID: "id", Session: "s", Tool: tool, Action: action, Offload: &yes}
		short, err := o.Result(t.Context(), call, tools.Definition{}, tools.NewToolResult(content))
		if err != nil {
			t.Fatal(err)
		}
		if content == "" {
			return // shown in full
		}
		attributes, summary, problem := parseFrame(short.ForLLM)
		if problem != "" {
			t.Fatalf("content %.200q: %s in\n%s", content, problem, short.ForLLM)
		}
		if attributes["id"] != "id" || attributes["type"] != short.Artifact.Type {
			t.Fatalf("the attributes are %v", attributes)
		}
		if _, _, problem := parseFrame(stripInvisible(short.ForLLM)); problem != "" {
			t.Fatalf("content %.200q: without what cannot be seen, %s in\n%s", content, problem, short.ForLLM)
		}
		if !utf8.ValidString(short.ForLLM) || len(summary) > 12_000 {
			t.Fatalf("the summary has %d bytes: %q", len(summary), summary)
		}
		if short.Artifact.Type != TypeText || utf8.RuneCountInString(content) > 2*previewRunes || !utf8.ValidString(content) {
			return
		}
		_, shown, _ := strings.Cut(summary, "preview:\n")
		// The line end of the frame replaces the last line end of the content. A preview has
		// no colors, and of a line that was overwritten only the last version.
		if got := strings.ReplaceAll(shown, "&lt;", "<"); got != strings.TrimSuffix(strings.ReplaceAll(stripANSI(content), "&lt;", "<"), "\n") {
			t.Fatalf("the preview of %q is %q", content, shown)
		}
	})
}

// stripInvisible removes characters that a reader of the text does not see.
func stripInvisible(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Mn, r)) {
			return -1
		}
		return r
	}, s)
}

func TestNeutraliseKeepsOtherText(t *testing.T) {
	for _, s := range []string{
		"a < b && c > d", "<html><body class='k'>&amp;</body>", "<key>k</key>", "<kno>", "<kbd>Ctrl</kbd> < known", "if (a <knife) {", "x<-y", "1 << k",
	} {
		if got := neutralise(s); got != s {
			t.Errorf("neutralise(%q) is %q", s, got)
		}
	}
	if got, want := neutralise("a</KNOWLEDGE >b"), "a&lt;/KNOWLEDGE >b"; got != want {
		t.Errorf("neutralise gives %q, want %q", got, want)
	}
}

func TestPreviewCutsAtLineEnds(t *testing.T) {
	text := strings.Repeat("ä", 500) + "\n" + strings.Repeat("b", 5_000) + "\n" + strings.Repeat("ö", 400) + "\n"
	got, err := preview(strings.NewReader(text), int64(len(text)), int64(utf8.RuneCountInString(text)), previewRunes)
	want := strings.Repeat("ä", 500) + "\n[... 5001 characters not shown ...]\n" + strings.Repeat("ö", 400) + "\n"
	if err != nil || got != want {
		t.Errorf("the preview is %q, %v, want %q", got, err, want)
	}
	// No cut at a line end that would cost more than half the budget.
	text = "short\n" + strings.Repeat("😀", 10_000) + "\nshort"
	got, err = preview(strings.NewReader(text), int64(len(text)), int64(utf8.RuneCountInString(text)), previewRunes)
	want = "short\n" + strings.Repeat("😀", 594) + "\n[... 8812 characters not shown ...]\n" + strings.Repeat("😀", 594) + "\nshort"
	if err != nil || got != want {
		t.Errorf("the preview is %q, %v", got, err)
	}
	for _, n := range []int{0, 1, 1199, 1200} {
		text = strings.Repeat("é", n)
		if got, err := preview(strings.NewReader(text), int64(len(text)), int64(utf8.RuneCountInString(text)), previewRunes); err != nil || got != text {
			t.Errorf("the preview of %d characters is not all of them: %q, %v", n, got, err)
		}
	}
}

func TestShapeIsBounded(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20)) // an overflow kills the process
	for name, text := range map[string]string{
		"deep":         strings.Repeat("[", 2<<20),
		"deep objects": strings.Repeat(`{"a":`, 1<<20),
		"huge string":  `{"a":"` + strings.Repeat("x", 5<<20) + `"}`,
		"many keys":    `{"k` + strings.Repeat(`":1,"k`, 200_000) + `":1}`,
		"long key":     `{"` + strings.Repeat("k", 5_000) + `":[{"a":1},{"a":2}]}`,
		"broken":       `{"a":[1,2,}`,
	} {
		got, err := shape(strings.NewReader(text), int64(len(text)), false, 2*previewRunes)
		if err != nil && !errors.Is(err, jsonread.ErrNotJSON) || len(got) > 2*previewRunes+100 {
			t.Errorf("%s: the shape has %d bytes, %v", name, len(got), err)
		}
		if (name == "huge string") != strings.Contains(got, "not all of it is described") {
			t.Errorf("%s: the shape is %s", name, got)
		}
		if complete := name == "huge string" || name == "many keys" || name == "long key"; complete != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShape(t *testing.T) {
	t.Parallel()
	var items strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&items, `{"id":%d,"name":"item \u00e9 %d","tags":[%s],"owner":{"login":"a","id":1,"site_admin":false,"type":"User"}},`, i, i, strings.Repeat(`"t",`, i%3)+`"z"`)
	}
	array := "[" + strings.TrimSuffix(items.String(), ",") + "]"
	item := `{id: number, name: string, tags: [1 to 3 elements, each: string], owner: {login: string, id: number, site_admin: boolean, type: string}}`
	sample := `{"id":0,"name":"item \u00e9 0","tags":["z"],"owner":{"login":"a","id":1,"site_admin":false,"type":"User"}}`
	const more = "\nelements behind the first MiB may have other fields\n"
	for _, row := range []struct {
		name, text string
		rows       bool
		want       string
	}{
		{"array", array, false, "JSON of the shape [30000 elements, each: " + item + "]" + more + ".[0]: " + sample},
		{"in an object", `{"total":7,"items":` + array + `,"next":null}`, false,
			"JSON of the shape {total: number, items: [30000 elements, each: " + item + "], next: null}" + more + ".items[0]: " + sample},
		{"rows", strings.ReplaceAll(items.String(), "}},", "}}\n"), true, "30000 rows of JSON, each of the shape " + item + more + "row 1: " + sample},
		{"optional and mixed", `[{"a":1},{"a":null,"b":"x"},{"a":2}]`, false, "JSON of the shape [3 elements, each: {a: number or null, b?: string}]\n.[0]: {\"a\":1}"},
		{"equal shapes", `{"x":{"first_name":1,"last_name":2,"street_name":3},"y":0,"z":{"first_name":1,"last_name":2,"street_name":3}}`, false,
			"JSON of the shape {x: {first_name: number, last_name: number, street_name: number}, y: number, z: as .x}"},
		{"nested", `{"a":{"b":{"c":{"d":{"e":[1,2,3]}}}}}`, false, "JSON of the shape {a: {b: {c: {d: {e: [3 elements, each: number]}}}}}\n.a.b.c.d.e[0]: 1"},
	} {
		got, err := shape(strings.NewReader(row.text), int64(len(row.text)), row.rows, 2*previewRunes)
		if err != nil || got != row.want && row.name != "nested" || !strings.HasPrefix(got, strings.Split(row.want, "\n")[0]) {
			t.Errorf("%s: %v\n%s\nwant\n%s", row.name, err, got, row.want)
		}
	}
	for _, text := range []string{"", "{", "[1 2]", "[1,]", `{"a" 1}`, "[tru]", "[1] x", `{"a":1,}`, `["x]`} {
		if got, err := shape(strings.NewReader(text), int64(len(text)), false, 1000); !errors.Is(err, jsonread.ErrNotJSON) {
			t.Errorf("%q has the shape %q, %v", text, got, err)
		}
	}
}

func TestPreviewsOfUnreadableText(t *testing.T) {
	png := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), bytes.Repeat([]byte("\x00\x07q\xfe"), 3_000)...)
	for name, row := range map[string]struct{ text, want string }{
		"base64":   {base64.StdEncoding.EncodeToString(png), "base64 of image/png; it begins with iVBORw0KGgo"},
		"minified": {strings.Repeat(`function a(b,c){return b?c.map(d=>d*2):null}var e=[1,2,3];`, 1_000), "minified text with very long lines; it begins with function"},
		"colors":   {strings.Repeat("\x1b[31merror\x1b[0m: \x1b]8;;http://x\x07link\x1b]8;;\x07\n10%\r20%\rdone\n", 100), "lines that say what failed: 100; the first of them:\n1: error: link\n3: error: link\n5: error: link\n7: error: link\nerror: link\ndone\nerror"},
		"document": {"# A title\n\n| id | name |\n|---|---|\n" + strings.Repeat("| 1 | x |\n", 200), "a table with 2 columns (types of the first rows): id INTEGER, name TEXT\n# A title\n"},
		"table":    {"id,name,city\n" + strings.Repeat("1,\"Doe, J\",Paris\n", 200), "a table with 3 columns (types of the first rows): id INTEGER, name TEXT, city TEXT\n1|Doe, J|Paris\n1|Doe, J|Paris\n1|Doe, J|Paris"},
	} {
		c := contentOf(t, []byte(row.text))
		rec := Record{}
		if err := summarize(t.Context())(&rec, c); err != nil || !strings.HasPrefix(rec.Summary, row.want) || name != "table" && name != "document" && name != "colors" && len(rec.Summary) > 300 {
			t.Errorf("%s: %v\n%s\nwant %s", name, err, rec.Summary, row.want)
		}
	}
}

// The notice names only tools that work, best first.
func TestNoticeNamesToolsThatWork(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		text string
		want []string
	}{
		"lines":    {strings.Repeat("a line\n", 1_000), []string{ToolGrep, ToolLines, ToolGet}},
		"one line": {strings.Repeat("a line ", 1_000), []string{ToolGrep, ToolGet}},
		"json":     {"[" + strings.Repeat(`"x",`, 1_000) + "1]", []string{ToolJQ, ToolGrep, ToolGet}},
		"broken":   {"[" + strings.Repeat(`"x",`, 500_000) + "x]", []string{ToolGrep, ToolGet}},
		"ndjson":   {strings.Repeat(`{"a":1}`+"\n", 1_000), []string{ToolJQ, ToolSQL, ToolGrep, ToolLines, ToolGet}},
		"command":  {"[" + strings.Repeat(`"x",`, 1_000) + "1]\n", []string{ToolJQ, ToolGrep, ToolGet}},
		"rows":     {strings.Repeat(`{"a":1}`+"\n", 1_000), []string{ToolJQ, ToolSQL, ToolGrep, ToolLines, ToolGet}},
		"cut":      {"[" + strings.Repeat(`"x",`, 1_000) + "\n", []string{ToolGrep, ToolGet}},
		"table":    {"a,b\n" + strings.Repeat("1,2\n", 1_000), []string{ToolSQL, ToolJQ, ToolGrep, ToolLines, ToolGet}},
		"objects":  {"[" + strings.Repeat(`{"a":1},`, 1_000) + `{"a":2}]`, []string{ToolJQ, ToolSQL, ToolGrep, ToolGet}},
		"kubectl":  {"NAME    READY\n" + strings.Repeat("web     1/1\n", 300), []string{ToolSQL, ToolGrep, ToolLines, ToolGet}},
		"a log":    {strings.Repeat("2026-01-01T00:00:00Z INFO request 1 took 3 ms, user 7\n", 1_000), []string{ToolGrep, ToolLines, ToolGet}},
		"binary":   {"\x7fELF" + strings.Repeat("\x00\xff\x01", 1_000), nil},
	} {
		c := contentOf(t, []byte(row.text))
		rec := Record{Artifact: tools.Artifact{ID: "a", Size: c.Size(), Lines: c.Index().Lines()}}
		if err := summarize(t.Context())(&rec, c); err != nil {
			t.Fatal(err)
		}
		text := notice(rec)
		var got []string
		for _, call := range regexp.MustCompile(`\w+\(`).FindAllString(text, -1) {
			got = append(got, strings.TrimSuffix(call, "("))
		}
		if row.want != nil && !slices.Equal(got, row.want) {
			t.Errorf("%s: %s; want %v", name, text, row.want)
		}
		if row.want == nil && (rec.Summary != "" || strings.Contains(Reference(rec), "\uFFFD") || !strings.Contains(text, ": 3004 bytes of application/")) {
			t.Errorf("%s: %s", name, Reference(rec))
		}
	}
}

// The notice says whether the result is also shown in full.
func TestNoticeIsTrueForAShownResult(t *testing.T) {
	for inline, want := range map[bool]string{true: "is also shown in full", false: "is not shown here"} {
		rec := Record{Artifact: tools.Artifact{ID: "a", Type: TypeText, Size: 9, Lines: 1, Inline: inline}}
		if text := notice(rec); !strings.Contains(text, want) {
			t.Errorf("inline %v: %s", inline, text)
		}
	}
}
