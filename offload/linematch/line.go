package linematch

import (
	"context"
	"io"
	"slices"
	"unicode/utf8"
)

// LongLine searches a line that is too long for the memory: Feed takes its parts,
// Find reads it a second time only if the literals cannot decide.
type LongLine struct {
	p    *Pattern
	Size int64  // bytes fed
	at   int64  // position of the first literal, or -1
	tail []byte // end of the last part, where a literal may begin
}

// LongLine starts the search of a line.
func (p *Pattern) LongLine() *LongLine { return &LongLine{p: p, at: -1} }

// Feed takes the next part of the line.
func (l *LongLine) Feed(part []byte) {
	if overlap := l.p.literal.longest() - 1; l.at < 0 && overlap >= 0 {
		border := append(l.tail, part[:min(len(part), overlap)]...)
		l.look(border, l.Size-int64(len(l.tail)))
		l.look(part, l.Size)
		if len(part) >= overlap {
			border = part
		}
		l.tail = slices.Clone(border[max(len(border)-overlap, 0):])
	}
	l.Size += int64(len(part))
}

func (l *LongLine) look(part []byte, off int64) {
	if l.at >= 0 {
		return
	}
	l.p.literal.reset(part)
	if at := l.p.literal.from(0); at >= 0 {
		l.at = off + int64(at)
	}
}

// Find returns where the first match begins, or -1. line is the whole line.
func (l *LongLine) Find(ctx context.Context, line io.Reader) (int64, error) {
	if l.p.exact || l.at < 0 && len(l.p.literal.texts) > 0 {
		return l.at, nil
	}
	return l.p.inStream(ctx, line)
}

// leadRunes are shown before the match in a line that is cut.
const leadRunes = 300

// Show returns the line at the bytes start to end of src. Of a line of more than
// MaxShown runes it returns the part around the byte at, and true; "…" replaces the
// rest. Each byte that is not UTF-8 becomes U+FFFD.
func Show(src io.ReaderAt, start, end, at int64) (string, bool, error) {
	from, to := start, min(end, at+MaxShown*utf8.UTFMax)
	if end-start > MaxShown*utf8.UTFMax {
		from = max(start, at-leadRunes*utf8.UTFMax)
	}
	data := make([]byte, to-from)
	if n, err := src.ReadAt(data, from); n < len(data) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return "", false, err
	}
	// The window is large enough that a rune cut at its ends is not shown.
	before, after := []rune(string(data[:at-from])), []rune(string(data[at-from:]))
	head, tail := "", ""
	if n := len(before) - leadRunes; from > start || n > 0 && (to < end || len(before)+len(after) > MaxShown) {
		before, head = before[max(n, 0):], "…"
	}
	if n := MaxShown - len(before); to < end || n < len(after) {
		after, tail = after[:min(n, len(after))], "…"
	}
	return head + string(before) + string(after) + tail, head+tail != "", nil
}
