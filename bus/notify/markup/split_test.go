package markup

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func splitText(text string, limit int, measure Unit) (parts []string) {
	for _, part := range (Styled{Text: text}).Split(limit, measure) {
		parts = append(parts, part.Text)
	}
	return parts
}

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		text    string
		limit   int
		measure Unit
		want    []string
	}{
		{"", 10, InRunes, nil},
		{"short", 10, InRunes, []string{"short"}},
		{"first paragraph\n\nsecond one", 20, InRunes, []string{"first paragraph", "second one"}},
		{"line one\nline two\nline three", 18, InRunes, []string{"line one\nline two", "line three"}},
		{"words and words and words", 10, InRunes, []string{"words and", "words and", "words"}},
		{"aaaaaaaaaaaaaaa", 10, InRunes, []string{"aaaaaaaaaa", "aaaaa"}},
		{"漢字漢字", 6, InBytes, []string{"漢字", "漢字"}},
		{"😀😀😀", 4, InUTF16, []string{"😀😀", "😀"}},
		{"aé́b", 3, InRunes, []string{"aé́", "b"}},
		{"xxxxxxxxxxxxxxxxxxxx👩‍👩‍👧", 23, InRunes, []string{"xxxxxxxxxxxxxxxxxxxx", "👩‍👩‍👧"}},
	} {
		got := splitText(test.text, test.limit, test.measure)
		if strings.Join(got, "|") != strings.Join(test.want, "|") {
			t.Errorf("split(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
	many := splitText(strings.Repeat("word ", 100_000), 1000, InRunes)
	if last := many[len(many)-1]; len(many) != maxParts || !strings.Contains(last, "more characters]") || len(last) > 1000 {
		t.Errorf("%d parts, the last is %q", len(many), last)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("a b\n\nc. d。e😀\u200d\u0301", 2)
	f.Add(strings.Repeat("\u0301", 300), 100)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 100 || limit > 5000 {
			limit = 100
		}
		text = Clean(text)
		var kept int
		parts := splitText(text, limit, InUTF16)
		for _, part := range parts {
			size := 0
			for _, r := range part {
				size += InUTF16(r)
			}
			if size > limit || !utf8.ValidString(part) || part == "" {
				t.Fatalf("part %q has %d of %d units", part, size, limit)
			}
			kept += len(strings.Join(strings.Fields(part), ""))
		}
		if len(parts) < maxParts && kept != len(strings.Join(strings.Fields(text), "")) {
			t.Fatalf("kept %d bytes of %q", kept, text)
		}
	})
}
