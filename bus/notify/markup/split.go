package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unit is the unit in which a service counts: bytes, runes or UTF-16 units.
type Unit func(r rune) int

// InBytes, InRunes and InUTF16 are the units of services.
func InBytes(r rune) int { return utf8.RuneLen(r) }
func InRunes(rune) int   { return 1 }
func InUTF16(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// maxParts bounds the messages of one notification; the result has the whole text.
const maxParts = 10

// part is the range of a text in one message.
type part struct{ from, to int }

// ranges splits valid text into parts of at most limit units, at the end of a
// paragraph, line, sentence or word if there is one in the second half of a part.
// It trims white space around the parts. It also returns the number of characters
// that do not fit into maxParts.
func ranges(text string, limit int, measure Unit) (parts []part, left int) {
	end := len(strings.TrimRightFunc(text, unicode.IsSpace))
	at := 0
	skip := func() { at = end - len(strings.TrimLeftFunc(text[min(at, end):end], unicode.IsSpace)) }
	for skip(); at < end; skip() {
		rest := text[at:end]
		over := len(parts) == maxParts-1 && fit(rest, limit, measure) < len(rest)
		if over {
			limit -= cutNoteReserve
		}
		next := cut(rest, limit, measure)
		if size := len(strings.TrimRightFunc(rest[:next], unicode.IsSpace)); size > 0 {
			parts = append(parts, part{at, at + size})
		}
		at += next
		if over {
			return parts, utf8.RuneCountInString(text[at:end])
		}
	}
	return parts, 0
}

// cutNoteReserve is an upper bound of the size of the note that Split appends, in any unit.
const cutNoteReserve = 60

// cut returns the end of the next part.
func cut(text string, limit int, measure Unit) int {
	end := fit(text, limit, measure)
	if end == len(text) {
		return end
	}
	for _, separator := range []string{"\n\n", "\n", ". ", "。", " "} {
		if at := strings.LastIndex(text[:end], separator); at >= end/2 {
			return at + len(separator)
		}
	}
	// Do not cut before a combining character or a joiner.
	for at := end; at > end/2; {
		r, _ := utf8.DecodeRuneInString(text[at:])
		before, size := utf8.DecodeLastRuneInString(text[:at])
		if !unicode.In(r, unicode.M, unicode.Cf) && before != '\u200d' {
			return at
		}
		at -= size
	}
	return end
}

// Size returns the size of a text.
func Size(text string, measure Unit) (units int) {
	for _, r := range text {
		units += measure(r)
	}
	return units
}

// fit returns the length in bytes of the longest prefix of at most limit units. It
// has at least one character, so that a loop over the parts ends.
func fit(text string, limit int, measure Unit) int {
	size := 0
	for i, r := range text {
		size += measure(r)
		if size > limit && i > 0 {
			return i
		}
	}
	return len(text)
}

// Clean removes control and direction characters and replaces invalid bytes by
// U+FFFD. It keeps joiners, which emoji need.
func Clean(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\ufffd")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.Is(unicode.Cc, r), r == 0x061c, 0x200e <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, r == 0xfeff:
			return -1
		case 0xe0000 <= r && r <= 0xe007f: // tags, which are invisible
			return -1
		}
		return r
	}, text)
}
