package notify

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"
)

// A service that reads any text as Markdown shows a plain text unchanged.
func TestPlainTextIsEscaped(t *testing.T) {
	for _, tt := range []struct{ text, discord, mattermost string }{
		{"*bold* _it_ ~~no~~ ||spoiler|| `code`", `\*bold\* \_it\_ \~\~no\~\~ \|\|spoiler\|\| ` + "\\`code\\`", `=`},
		{"[link](javascript:alert(1))", `\[link](javascript:alert(1))`, `=`},
		{`C:\*dir`, `C:\\\*dir`, `=`},
		{"see (https://example.com/a_b_c), <https://example.com/_x_>", "see (https://example.com/a_b_c), <https://example.com/_x_>", `=`},
		{"# a\n> b\n- c\n1. d\n 2) e\n+ f - # > 1.", "\\# a\n\\> b\n\\- c\n1\\. d\n 2\\) e\n\\+ f - # > 1.", "\\# a\n\\> b\n\\- c\n1\\. d\n\u00a02\\) e\n\\+ f - # > 1."},
		{"title\n===\n\tcode", "title\n===\n\tcode", "title\n\u200b===\n\u00a0\u00a0\u00a0\u00a0code"},
		{"<@1> a < b <_x_", `\<@1> a < b <\_x\_`, "<\u200b@1> a < b <\\_x\\_"},
	} {
		if got := escapeMarkdown(tt.text); got != tt.discord {
			t.Errorf("discord: %q becomes\n%q, want\n%q", tt.text, got, tt.discord)
		}
		want := tt.mattermost
		if want == "=" {
			want = tt.discord
		}
		if got := escapeMattermost(tt.text); got != want {
			t.Errorf("mattermost: %q becomes\n%q, want\n%q", tt.text, got, want)
		}
	}
}

// The parts of an escaped text are within the limit and complete, and Markdown is
// not escaped.
func TestPlainTextIsEscapedInEachPart(t *testing.T) {
	h := newHook(t)
	c, err := NewHTTP("discord", HTTPConfig{URL: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("*_", 1500)
	for _, n := range []Notification{{ID: "1", Text: text}, {ID: "2", Text: "*so*", Format: FormatMarkdown}} {
		if err := c.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	var parts []string
	for _, body := range h.bodies {
		var m struct{ Content string }
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		if n := len(utf16.Encode([]rune(m.Content))); n > 2000 {
			t.Errorf("a part has %d units", n)
		}
		parts = append(parts, m.Content)
	}
	last := len(parts) - 1
	if got := strings.Join(parts[:last], ""); got != strings.Repeat(`\*\_`, 1500) || parts[last] != "_so_" {
		t.Errorf("%d parts; the last is %q, the others have %d bytes", len(parts), parts[last], len(got))
	}
}
