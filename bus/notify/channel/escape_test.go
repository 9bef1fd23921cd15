package channel

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"
)

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
