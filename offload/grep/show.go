package grep

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
	"github.com/stevedore-bus/stevedore/tools"
)

// leadRunes are shown before the match in a line that is cut.
const leadRunes = 300

// Show returns the line at the bytes start to end of src. Of a line of more than
// MaxShown runes it returns the part around the byte at, and true; "…" replaces the
// rest. Each byte that is not UTF-8 becomes \xNN.
func Show(src io.ReaderAt, start, end, at int64) (string, bool, error) {
	from, to := start, min(end, at+MaxShown*utf8.UTFMax)
	if end-start > MaxShown*utf8.UTFMax {
		from = max(start, at-leadRunes*utf8.UTFMax)
	}
	data := make([]byte, to-from)
	if err := textscan.ReadFull(src, data, from); err != nil {
		return "", false, err
	}
	// The window is large enough that a rune cut at its ends is not shown.
	before, after := data[:at-from], data[at-from:]
	lead, rest := utf8.RuneCount(before), utf8.RuneCount(after)
	head, tail := "", ""
	if from > start || lead > leadRunes && (to < end || lead+rest > MaxShown) {
		before, lead, head = lastRunes(before, leadRunes), min(lead, leadRunes), "…"
	}
	if n := MaxShown - lead; to < end || n < rest {
		after, tail = after[:textscan.RunesLen(after, int64(n))], "…"
	}
	return head + tools.EscapeBytes(string(before)) + tools.EscapeBytes(string(after)) + tail, head+tail != "", nil
}

// ShowAll is Show for a line with several matches: of a long line it returns the parts
// around the first matches, at most about limit runes, and how many of them it shows.
func ShowAll(src io.ReaderAt, line Line, limit int) (text string, cut bool, shown int, err error) {
	const before, after = 60, 140 // bytes
	if line.End-line.Start <= MaxShown {
		text, cut, err = Show(src, line.Start, line.End, line.Start)
		return text, cut, len(line.At), err
	}
	var b strings.Builder
	end := line.Start // of the last part
	for i, at := range line.At {
		from, to := max(at-before, end), min(at+after, line.End)
		if i > 0 && b.Len()+int(to-from) > limit {
			break
		}
		shown++
		if to <= end {
			continue
		}
		part, err := runesBetween(src, from, to, line)
		if err != nil {
			return "", false, 0, err
		}
		if from > end {
			b.WriteString("…")
		}
		b.WriteString(part)
		end = to
	}
	if end < line.End {
		b.WriteString("…")
	}
	return b.String(), true, shown, nil
}

// runesBetween returns about the bytes from to to of a line, without parts of runes:
// each rune belongs to the range that contains its first byte.
func runesBetween(src io.ReaderAt, from, to int64, line Line) (string, error) {
	data := make([]byte, min(to+utf8.UTFMax, line.End)-from)
	if err := textscan.ReadFull(src, data, from); err != nil {
		return "", err
	}
	start := 0
	for from > line.Start && start < utf8.UTFMax-1 && start < len(data) && !utf8.RuneStart(data[start]) {
		start++
	}
	end := int(to - from)
	for end < len(data) && !utf8.RuneStart(data[end]) {
		end++
	}
	return tools.EscapeBytes(string(data[min(start, end):end])), nil
}

func lastRunes(text []byte, n int) []byte {
	start := len(text)
	for ; n > 0 && start > 0; n-- {
		_, size := utf8.DecodeLastRune(text[:start])
		start -= size
	}
	return text[start:]
}
