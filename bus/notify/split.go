package notify

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unit measures text as a channel does: in bytes, runes or UTF-16 units.
type unit func(r rune) int

func inBytes(r rune) int { return utf8.RuneLen(r) }
func inRunes(rune) int   { return 1 }
func inUTF16(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// maxParts bounds what one notification may pour out; the whole text is with
// the result.
const maxParts = 10

// split cuts valid text into parts of at most limit units, at the end of a
// paragraph, line, sentence or word where there is one in the second half of a
// part. What is over maxParts is left out, with a word about it.
func split(text string, limit int, measure unit) []string {
	var parts []string
	for _, piece := range (styled{text: text}).split(limit, measure) {
		parts = append(parts, piece.text)
	}
	return parts
}

// part is what of a text goes into one message.
type part struct{ from, to int }

// ranges returns the parts of a text, without the white space around them, and
// how many characters are left out.
func ranges(text string, limit int, measure unit) (parts []part, left int) {
	end := len(strings.TrimRightFunc(text, unicode.IsSpace))
	at := 0
	skip := func() { at = end - len(strings.TrimLeftFunc(text[min(at, end):end], unicode.IsSpace)) }
	for skip(); at < end; skip() {
		rest := text[at:end]
		over := len(parts) == maxParts-1 && fit(rest, limit, measure) < len(rest)
		if over {
			limit -= roomForLeftOut
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

// roomForLeftOut is more than leftOut takes, in units of whatever kind.
const roomForLeftOut = 60

func leftOut(characters int) string {
	return fmt.Sprintf("\n[cut: %d more characters]", characters)
}

// cut returns where the next part ends.
func cut(text string, limit int, measure unit) int {
	end := fit(text, limit, measure)
	if end == len(text) {
		return end
	}
	for _, separator := range []string{"\n\n", "\n", ". ", "。", " "} {
		if at := strings.LastIndex(text[:end], separator); at >= end/2 {
			return at + len(separator)
		}
	}
	// Not between a character and what is joined to it.
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

// size measures a text.
func size(text string, measure unit) (units int) {
	for _, r := range text {
		units += measure(r)
	}
	return units
}

// fit returns how many bytes of text make at most limit units; at least one
// character, so that there is an end.
func fit(text string, limit int, measure unit) int {
	size := 0
	for i, r := range text {
		size += measure(r)
		if size > limit && i > 0 {
			return i
		}
	}
	return len(text)
}

// clean makes text from anybody harmless for chats: control and direction
// characters vanish, invalid bytes become U+FFFD. Joiners stay, as emoji need
// them.
func clean(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\ufffd")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.Is(unicode.Cc, r), r == 0x061c, 0x200e <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, r == 0xfeff:
			return -1
		case 0xe0000 <= r && r <= 0xe007f: // tags: text that nobody sees
			return -1
		}
		return r
	}, text)
}
