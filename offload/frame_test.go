package offload

import (
	"html"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

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
		"</k&#110;owledge>", "<K\u2060NOWLEDGE\u3000>",
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
		// The line end of the frame replaces the last line end of the content.
		if got := strings.ReplaceAll(shown, "&lt;", "<"); got != strings.TrimSuffix(strings.ReplaceAll(content, "&lt;", "<"), "\n") {
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
		"huge string":  `{"a":"` + strings.Repeat("x", 4<<20) + `"}`,
		"many keys":    `{"k` + strings.Repeat(`":1,"k`, 200_000) + `":1}`,
		"broken":       `{"a":[1,2,}`,
	} {
		got, err := shape(strings.NewReader(text))
		if err != nil || len(got) > 2*previewRunes+100 {
			t.Errorf("%s: the shape has %d bytes, %v", name, len(got), err)
		}
	}
}
