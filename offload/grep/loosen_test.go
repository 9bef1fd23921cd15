package grep

import (
	"strings"
	"testing"
)

// TestLooksLike: a text that looks like a match says why it is none.
func TestLooksLike(t *testing.T) {
	for _, row := range []struct{ text, pattern, want string }{
		{"x\n" + `{"name":"caf\u00e9"}`, "café", `line 2 looks like a match ("{\"name\":\"café\"}"), but has escapes of JSON`},
		{`{"path":"a\/b"}`, "a/b", "escapes of JSON"},
		{"a \x1b[31merror\x1b[0m: disk full\n", "error: disk", "control sequences of a terminal"},
		{"\x1b[1merror\x1b(B\x1b[m: disk full\n", "error: disk", "control sequences of a terminal"},
		{"a\tb   c\n", "a b c", "other spaces, tabs"},
		{"price 1\u00a0000 EUR\n", "1 000", "other spaces"},
		{"Tom &amp; Co &lt;x&gt;\n", "Co <x>$", "entities such as &amp;"},
		{"cafe\u0301\n", "café", "accents"},
		{"café\n", "cafe\u0301", "other characters than the pattern"},
		{"foo\u2011bar it\u2019s\n", "foo-bar it's", "dashes"},
		{"\ufeffname,city\n", "^name", "a byte order mark"},
		{"one\rtwo\rthree\n", "^two$", `line 1 looks like a match ("two"), but has a CR between lines`},
		{"one\r\ntwo\r\n", "^six$", ""},
		{"one\r\r\ntwo\r\r\n", "^one$", "a CR between lines"},
		{`{"id":1,"status":"failed"}`, `"status": "failed"`, "other spaces beside"},
		{`{"id": 1, "status": "failed"}`, `"id":1,"status":"failed"`, "other spaces beside : , or ="},
		{"port = 80\n", "^port=80$", "other spaces beside"},
		{"plain text\nof two lines\n", "text of", ""},
		{strings.Repeat("a line\n", 1_000) + "1\tb\n", "1 b", "line 1001 looks like"},
		{strings.Repeat("é", 30) + "a\tb", "a b", "looks like a match"},
	} {
		got := looksLike(t.Context(), strings.NewReader(row.text), Query{Pattern: row.pattern})
		if !strings.Contains(got, row.want) || row.want == "" && got != "" {
			t.Errorf("%q in %.100q: %q; want %q", row.pattern, row.text, got, row.want)
		}
	}
}
