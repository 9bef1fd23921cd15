package offload

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// frameTag is the start of the names of the reference's elements.
const frameTag = "knowledge"

// neutralise replaces each '<' that could open or close an element of the reference
// by "&lt;", and each byte that is not UTF-8 by \xNN. It ignores case, slashes, white
// space, control characters and everything invisible.
func neutralise(s string) string {
	s = tools.EscapeBytes(s)
	if !strings.Contains(s, "<") {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		if r == '<' && opensFrame(s[i+1:]) {
			out.WriteString("&lt;")
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// opensFrame reports whether the text after a '<' spells the tag.
func opensFrame(s string) bool {
	want := frameTag
	for _, r := range s {
		if r == '/' || !visible(r) {
			continue
		}
		c, _ := utf8.DecodeRuneInString(want)
		if !strings.EqualFold(string(r), string(c)) {
			return false
		}
		if want = want[1:]; want == "" {
			return true
		}
	}
	return false
}

// visible reports whether a reader of a tag sees r.
func visible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Default_Ignorable_Code_Point)
}

var attributeEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;", "\n", " ", "\r", " ")

// attribute makes a value safe between single quotes.
func attribute(s string) string {
	return attributeEscaper.Replace(strings.ToValidUTF8(s, "\uFFFD"))
}
