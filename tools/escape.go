package tools

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape makes untrusted text safe for terminals and logs. It replaces control,
// bidirectional, zero-width and other invisible characters by visible escapes. It
// keeps line feeds, tabs, and the joiners of emoji and of scripts such as Persian, and
// replaces CRLF by a line feed.
func Escape(text string) string {
	if isPlain(text) {
		return text
	}
	return escape(strings.ReplaceAll(text, "\r\n", "\n"), invisible)
}

// EscapeJSON is Escape for JSON, which keeps its meaning.
func EscapeJSON(text string) string {
	if isPlain(text) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r < 0x7f || r == utf8.RuneError || !invisible(r) { // below 0x7f, strings of JSON have escapes already
			out.WriteString(text[:size])
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return out.String()
}

// EscapeBytes returns a text as UTF-8: it replaces each byte that is not part of a
// character by \xNN, so that a reader can tell which byte it is.
func EscapeBytes(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return escape(text, func(rune) bool { return false })
}

// escape replaces the bytes that are not part of a character, and the characters that hide
// selects.
func escape(text string, hide func(rune) bool) string {
	var out strings.Builder
	out.Grow(len(text) + 64)
	var before rune
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case !hide(r) || joins(before, r, text[i+size:]):
			out.WriteString(text[i : i+size])
		case r < 0x100:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
		i += size
		before = r
	}
	return out.String()
}

// joins reports whether r is a joiner between visible characters that are not ASCII.
func joins(before, r rune, rest string) bool {
	if r != 0x200c && r != 0x200d {
		return false
	}
	after, _ := utf8.DecodeRuneInString(rest)
	for _, neighbour := range []rune{before, after} {
		if neighbour < utf8.RuneSelf || neighbour == utf8.RuneError || invisible(neighbour) {
			return false
		}
	}
	return true
}

// EscapeLine is Escape for text that must fit on one line.
func EscapeLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Escape(text))
}

func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// invisible reports whether r changes what a terminal shows without being visible.
func invisible(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co):
		return true
	case r == 0x034f, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xffa0:
		return true // fillers and joiners of other categories
	}
	return 0xe0100 <= r && r <= 0xe01ef || 0x180b <= r && r <= 0x180f
}
