package grep

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
)

// maxMatch bounds the length of a match in a line that does not fit into memory,
// unless the pattern contains .*, which is searched in a slower way.
const maxMatch = 64 << 10

// InLine yields the matches in the bytes pos to size of src, which is one line, until
// yield returns false or ctx ends. The line may have any length.
func (p *Pattern) InLine(ctx context.Context, src io.ReaderAt, pos, size int64, yield func(start, end int64) bool) error {
	overlap := int64(min(p.longest, maxMatch) + utf8.UTFMax)
	window := int64(p.piece())
	if p.literal != nil {
		window = max(window, int64(min(maxSteps/p.cost, 1<<20)))
	}
	if p.wide || p.longest > maxMatch && p.longest < unbounded || window < 4*overlap && overlap > 1<<12 {
		return p.inStream(ctx, src, pos, size, yield)
	}
	window = max(window, 4*overlap)
	buf := make([]byte, 0, min(window, size)+utf8.UTFMax)
	last, touched := int64(-1), false // end of the last match; it reached the end of a window
	for pos <= size {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := max(pos-utf8.UTFMax, 0)
		buf = buf[:min(size, pos+window)-from]
		if err := textscan.ReadFull(src, buf, from); err != nil {
			return err
		}
		end := from + int64(len(buf))
		limit := end - overlap // matches that begin later are searched in the next window
		if end == size {
			limit = size
		}
		next := limit + 1
		if end < size {
			next = limit
		}
		for at := int(pos - from); ; {
			found := p.firstIn(buf, at)
			if found == nil || from+int64(found[0]) > limit || end < size && from+int64(found[0]) == limit {
				break
			}
			start, stop := from+int64(found[0]), from+int64(found[1])
			continued := touched && start == last
			touched = stop == end && end < size
			if at = found[1]; start == stop {
				at = nextRune(buf, at)
			}
			next = max(next, from+int64(at))
			if start == stop && start == last || continued {
				last = stop
				continue
			}
			last = stop
			if !yield(start, stop) {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if at > len(buf) {
				break
			}
		}
		pos = next
	}
	return nil
}

// firstIn returns the first match of text at or after pos, or nil.
func (p *Pattern) firstIn(text []byte, pos int) []int {
	if pos > len(text) {
		return nil
	}
	if p.literal != nil {
		at := indexFrom(text, p.literal, pos)
		if at < 0 {
			return nil
		}
		if p.exact {
			return []int{at, at + len(p.literal)}
		}
	}
	if found := p.findFrom(text, pos, 1); len(found) > 0 {
		return found[0]
	}
	return nil
}

// inStream is InLine for matches of any length. It takes tens of nanoseconds per byte.
func (p *Pattern) inStream(ctx context.Context, src io.ReaderAt, pos, size int64, yield func(start, end int64) bool) error {
	for last := int64(-1); pos <= size; {
		start, end, err := p.firstInStream(ctx, src, pos, size)
		if err != nil || start < 0 {
			return err
		}
		if pos = end; start == end {
			pos++ // in the middle of a rune nothing else than the next rune is found
			for pos < size && !runeStart(src, pos) {
				pos++
			}
			if start == last {
				continue
			}
		}
		last = end
		if !yield(start, end) {
			return nil
		}
	}
	return nil
}

func runeStart(src io.ReaderAt, pos int64) bool {
	var b [1]byte
	_, err := src.ReadAt(b[:], pos)
	return err != nil && err != io.EOF || utf8.RuneStart(b[0])
}

// firstInStream returns the first match at or after pos, or -1.
func (p *Pattern) firstInStream(ctx context.Context, src io.ReaderAt, pos, size int64) (start, end int64, err error) {
	from := pos
	if p.asserts && pos > 0 {
		var before [utf8.UTFMax]byte
		n := min(pos, utf8.UTFMax)
		if err := textscan.ReadFull(src, before[:n], pos-n); err != nil {
			return -1, -1, err
		}
		_, width := utf8.DecodeLastRune(before[:n])
		from -= int64(width)
	}
	checked := &checkedReader{ctx: ctx, r: io.NewSectionReader(src, from, size-from)}
	in := bufio.NewReaderSize(checked, 1<<10)
	var loc []int
	if from < pos {
		if loc = p.resume().FindReaderSubmatchIndex(in); loc != nil {
			loc = loc[2:4]
		}
	} else {
		loc = p.re.FindReaderIndex(in)
	}
	switch {
	case checked.err != nil:
		return -1, -1, checked.err
	case loc == nil:
		return -1, -1, nil
	}
	return from + int64(loc[0]), from + int64(loc[1]), nil
}

// checkedReader ends with its context. It keeps the error that regexp ignores.
type checkedReader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (c *checkedReader) Read(p []byte) (int, error) {
	if c.err = c.ctx.Err(); c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// literalFilter finds out in one pass whether a long line can match.
type literalFilter struct {
	p    *Pattern
	seen bool
	tail []byte // end of the last part, where a literal may begin
}

// feed takes the next part of the line.
func (l *literalFilter) feed(part []byte) {
	overlap := len(l.p.literal) - 1
	if l.seen = l.seen || overlap < 0; l.seen {
		return
	}
	border := append(l.tail, part[:min(len(part), overlap)]...)
	l.seen = bytes.Contains(border, l.p.literal) || bytes.Contains(part, l.p.literal)
	if len(part) >= overlap {
		border = part
	}
	l.tail = slices.Clone(border[max(len(border)-overlap, 0):])
}
