package grep

import (
	"bytes"
	"context"
	"unicode/utf8"
)

// pieceSize is how many bytes package regexp searches at a time, or fewer if the
// pattern is costly.
const pieceSize = 64 << 10

// piece returns how many bytes can be searched between two checks of the context.
func (p *Pattern) piece() int { return min(max(maxSteps/p.cost, 1<<10), pieceSize) }

// All yields the matches in the lines of text that begin at or after pos, in order
// and without overlaps, until yield returns false or ctx ends. It searches only the lines
// that the dfa finds among those with a literal, or among all if the pattern has none.
func (p *Pattern) All(ctx context.Context, text []byte, pos int, yield func(start, end int) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	find := func(pos int) int { return p.dfa.from(ctx, text, pos) }
	all := p.folded // that a match has
	switch {
	case p.literal != nil:
		find = func(pos int) int { return indexFrom(text, p.literal, pos) }
		if p.exact {
			all = p.literal
		}
	case p.folded != nil:
		lowered := lower(text)
		find = func(pos int) int { return indexFrom(lowered, p.folded, pos) }
	}
	stopped := false
	for pos <= len(text) {
		at := find(pos)
		if at < 0 {
			return nil
		}
		if all != nil {
			pos = at + len(all)
			if !yield(at, pos) {
				return nil
			}
			continue
		}
		from, to := lineAround(text, at)
		if p.dfa.from(ctx, text[from:to], 0) < 0 { // after a literal
			pos = to + 1
			continue
		}
		err := p.inLines(ctx, text[from:to], max(pos-from, 0), func(start, end int) bool {
			stopped = !yield(from+start, from+end)
			return !stopped
		})
		if err != nil || stopped {
			return err
		}
		pos = to + 1
	}
	return nil
}

// indexFrom returns the first position of a literal at or after pos, or -1.
func indexFrom(text, literal []byte, pos int) int {
	at := bytes.Index(text[pos:], literal)
	if at < 0 {
		return -1
	}
	return pos + at
}

// lineAround returns the line that contains position at.
func lineAround(text []byte, at int) (start, end int) {
	start, end = bytes.LastIndexByte(text[:at], '\n')+1, len(text)
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		end = at + n
	}
	return start, end
}

// inLines yields the matches at or after pos in a line.
func (p *Pattern) inLines(ctx context.Context, text []byte, pos int, yield func(start, end int) bool) error {
	if len(text) > p.piece() {
		return p.InLine(ctx, bytes.NewReader(text), int64(pos), int64(len(text)), func(start, end int64) bool {
			return yield(int(start), int(end))
		})
	}
	last := -1 // end of the last match
	for pos <= len(text) {
		if err := ctx.Err(); err != nil {
			return err
		}
		found := p.findFrom(text, pos, p.perSearch(text))
		if len(found) == 0 {
			return nil
		}
		for _, m := range found {
			if pos = m[1]; m[0] == m[1] {
				pos = nextRune(text, pos)
				if m[0] == last {
					continue // an empty match at the end of another one does not count
				}
			}
			last = m[1]
			if !yield(m[0], m[1]) {
				return nil
			}
		}
	}
	return nil
}

func nextRune(text []byte, pos int) int {
	if pos >= len(text) {
		return pos + 1
	}
	_, size := utf8.DecodeRune(text[pos:])
	return pos + size
}

// perSearch returns how many matches of text may be searched between two checks of
// the context: each may take a step per byte of the rest of its line.
func (p *Pattern) perSearch(text []byte) int {
	span := min(len(text), p.longest)
	if p.longest == unbounded {
		span = longestLine(text)
	}
	return min(max(4*maxSteps/(p.cost*(span+1)), 1), 4<<10)
}

func longestLine(text []byte) int {
	n := 0
	for len(text) > n {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return max(n, len(text))
		}
		n = max(n, end)
		text = text[end+1:]
	}
	return n
}

// findFrom returns the next matches at or after pos, at most n, at least one if there
// is any. The text before pos counts for ^ and \b.
func (p *Pattern) findFrom(text []byte, pos, n int) [][]int {
	if pos == 0 || !p.asserts {
		found := p.re.FindAllIndex(text[pos:], n)
		for _, m := range found {
			m[0] += pos
			m[1] += pos
		}
		return found
	}
	_, size := utf8.DecodeLastRune(text[:pos])
	from := pos - size
	found := p.re.FindAllIndex(text[from:], n+1)
	for _, m := range found {
		m[0] += from
		m[1] += from
		if m[0] < pos && m[1] > pos { // it hides matches that begin at pos
			after := p.resume().FindSubmatchIndex(text[from:])
			if after == nil {
				return nil
			}
			return [][]int{{from + after[2], from + after[3]}}
		}
	}
	for len(found) > 0 && found[0][0] < pos {
		found = found[1:]
	}
	return found
}
