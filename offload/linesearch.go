package offload

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
)

const (
	searchChunk  = 1 << 20 // what is read at a time
	longLine     = 1 << 20 // a longer line is not held in memory
	regexpBudget = 1 << 24 // steps that a regexp may take between two looks at the clock
)

// lineMatch is a line that matches, and where in it.
type lineMatch struct {
	line       int64 // from 1
	start, end int64 // bytes of the line
	at         int64 // the first byte of the match
}

// lineSearch finds the lines of a content that match a pattern, from the first
// on, up to a limit.
type lineSearch struct {
	c       blockContent
	pattern *pattern
	limit   int // matches
	room    int // bytes to show; the search stops when they are used up

	literal  literalSearch
	found    []lineMatch
	line     int64 // lines before what is searched next
	searched int64 // bytes before it
	used     int
}

// run searches. It holds two chunks and the beginning of a line in memory; a
// line longer than that it searches as it passes by, and reads a second time
// only if a literal cannot decide.
func (s *lineSearch) run(ctx context.Context) error {
	s.literal.literals = s.pattern.need
	var carry []byte // the beginning of a line, up to searched+len(carry)
	var long *longSearch
	for chunk, err := range readAhead(ctx, s.c) {
		if err != nil {
			return err
		}
		for len(chunk) > 0 && !s.done() {
			first := bytes.IndexByte(chunk, '\n')
			switch {
			case first < 0 && long == nil && len(carry)+len(chunk) <= longLine:
				carry = append(carry, chunk...)
				chunk = nil
				continue
			case first < 0 || long != nil || len(carry)+first > longLine:
				if long == nil {
					long = &longSearch{lineSearch: s, start: s.searched}
					long.feed(carry)
					carry = carry[:0]
				}
				if first < 0 {
					long.feed(chunk)
					chunk = nil
					continue
				}
				long.feed(chunk[:first])
				if err := long.finish(ctx); err != nil {
					return err
				}
				long, chunk = nil, chunk[first+1:]
				continue
			case len(carry) > 0:
				carry = append(carry, chunk[:first]...)
				if err := s.lines(ctx, carry); err != nil {
					return err
				}
				carry, chunk = carry[:0], chunk[first+1:]
				continue
			}
			last := bytes.LastIndexByte(chunk, '\n')
			if err := s.lines(ctx, chunk[:last]); err != nil {
				return err
			}
			chunk = chunk[last+1:]
		}
		if s.done() {
			return nil
		}
	}
	switch {
	case s.done():
		return nil
	case long != nil:
		return long.finish(ctx)
	}
	return s.lines(ctx, carry) // the last line has no newline, and may be empty
}

func (s *lineSearch) done() bool { return len(s.found) >= s.limit || s.used > s.room }

func (s *lineSearch) add(m lineMatch) {
	s.found = append(s.found, m)
	s.used += int(min(m.end-m.start, maxLineRunes)) + 16
}

// lines searches whole lines, which the newlines between them separate.
func (s *lineSearch) lines(ctx context.Context, text []byte) error {
	if len(s.literal.texts) > 0 {
		s.literal.reset(text)
	}
	counted, line := 0, s.line
	for p := 0; p <= len(text) && !s.done(); {
		at, err := s.next(ctx, text, p)
		if err != nil {
			return err
		}
		if at < 0 {
			break
		}
		line += textscan.CountNewlines(text[counted:at])
		counted = at
		start, end := lineAround(text, at)
		s.add(lineMatch{line: line + 1, start: s.searched + int64(start), end: s.searched + int64(end), at: s.searched + int64(at)})
		p = end + 1
	}
	s.line = line + textscan.CountNewlines(text[counted:]) + 1
	s.searched += int64(len(text)) + 1
	return nil
}

// lineAround returns where the line that holds position at begins and ends.
func lineAround(text []byte, at int) (start, end int) {
	start = bytes.LastIndexByte(text[:at], '\n') + 1
	if end = bytes.IndexByte(text[at:], '\n'); end < 0 {
		return start, len(text)
	}
	return start, at + end
}

// next finds the first match at or after p, the beginning of a line, or -1.
func (s *lineSearch) next(ctx context.Context, text []byte, p int) (int, error) {
	if len(s.literal.texts) == 0 {
		return s.nextMatch(ctx, text, p)
	}
	for p <= len(text) {
		at := s.literal.from(p)
		if at < 0 {
			return -1, nil
		}
		if s.pattern.exact {
			return at, nil
		}
		start, end := lineAround(text, at)
		match, err := s.nextMatch(ctx, text[start:end], 0)
		if err != nil {
			return -1, err
		}
		if match >= 0 {
			return start + match, nil
		}
		p = end + 1
	}
	return -1, nil
}

// nextMatch applies the regexp to pieces that it is done with soon.
func (s *lineSearch) nextMatch(ctx context.Context, text []byte, p int) (int, error) {
	budget := max(regexpBudget/s.pattern.cost, 1<<10)
	for p <= len(text) {
		if err := ctx.Err(); err != nil {
			return -1, err
		}
		end := len(text)
		if end-p > budget {
			if cut := bytes.LastIndexByte(text[p:p+budget], '\n'); cut >= 0 {
				end = p + cut
			} else {
				_, end = lineAround(text, p)
			}
		}
		if end-p > budget {
			at, err := s.pattern.inStream(ctx, bytes.NewReader(text[p:end]))
			if err != nil || at >= 0 {
				return p + int(at), err
			}
		} else if loc := s.pattern.re.FindIndex(text[p:end]); loc != nil {
			return p + loc[0], nil
		}
		p = end + 1
	}
	return -1, nil
}

// inStream finds the first match in one line that comes from a reader, or -1.
func (p *pattern) inStream(ctx context.Context, r io.Reader) (int64, error) {
	checked := &checkedReader{ctx: ctx, r: r}
	loc := p.re.FindReaderIndex(bufio.NewReaderSize(checked, 1<<10))
	switch {
	case checked.err != nil:
		return -1, checked.err
	case loc == nil:
		return -1, nil
	}
	return int64(loc[0]), nil
}

// checkedReader ends when its context does, and keeps the error that regexp
// swallows.
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

// longSearch searches one line that is longer than memory should be.
type longSearch struct {
	*lineSearch
	start int64
	size  int64
	hit   int64 // where a literal stands, from the start of the line, plus 1; or 0
	tail  []byte
}

// feed takes the next part of the line.
func (l *longSearch) feed(part []byte) {
	if overlap := l.pattern.need.longest() - 1; l.hit == 0 && overlap >= 0 {
		border := append(l.tail, part[:min(len(part), overlap)]...)
		l.look(border, l.size-int64(len(l.tail)))
		l.look(part, l.size)
		if len(part) >= overlap {
			border = part
		}
		l.tail = slices.Clone(border[max(len(border)-overlap, 0):])
	}
	l.size += int64(len(part))
}

func (l *longSearch) look(part []byte, off int64) {
	if l.hit > 0 {
		return
	}
	l.literal.reset(part)
	if at := l.literal.from(0); at >= 0 {
		l.hit = off + int64(at) + 1
	}
}

// finish is told that the line has ended.
func (l *longSearch) finish(ctx context.Context) error {
	end := l.start + l.size
	at := l.hit - 1
	if !l.pattern.exact && (l.hit > 0 || len(l.literal.texts) == 0) {
		var err error
		line := io.NewSectionReader(l.c, l.start, l.size)
		if at, err = l.pattern.inStream(ctx, line); err != nil {
			return err
		}
	}
	l.line++
	l.searched = end + 1
	if at >= 0 {
		l.add(lineMatch{line: l.line, start: l.start, end: end, at: l.start + at})
	}
	return nil
}

// show reads a matching line back: all of it, or what is around the match.
func (m lineMatch) show(c blockContent) (GrepLine, error) {
	line := GrepLine{Line: m.line, Match: true}
	from, to := m.start, m.end
	if from < m.at-leadRunes*utf8.UTFMax {
		from = m.at - leadRunes*utf8.UTFMax
	}
	if m.end-m.start <= maxLineRunes*utf8.UTFMax {
		from = m.start
	}
	to = min(to, m.at+maxLineRunes*utf8.UTFMax)
	data, err := readRange(c, from, to-from)
	if err != nil {
		return line, err
	}
	if from > m.start {
		data = dropPartial(data)
	}
	if from == m.start && to == m.end && utf8.RuneCount(data) <= maxLineRunes {
		line.Text, _ = textAndData(data)
		return line, nil
	}
	line.Cut = true
	if line.Offset, err = c.Index().CharAt(c, m.at); err != nil {
		return line, err
	}
	lead := data[:max(len(data)-int(to-m.at), 0)]
	if n := utf8.RuneCount(lead); n > leadRunes {
		data = data[textscan.RunesLen(lead, int64(n-leadRunes)):]
		from = m.start + 1 // the beginning is cut
	}
	shown := data[:textscan.RunesLen(data, maxLineRunes)]
	line.Text, _ = textAndData(shown)
	if from > m.start {
		line.Text = "…" + line.Text
	}
	if len(shown) < len(data) || to < m.end {
		line.Text += "…"
	}
	return line, nil
}
