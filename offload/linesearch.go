package offload

import (
	"bytes"
	"context"
	"io"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
	"github.com/stevedore-bus/stevedore/offload/linematch"
)

const (
	readSize = 1 << 20 // bytes read at a time
	longLine = 1 << 20 // bytes of the longest line that is held in memory
	lineCost = 16      // characters that each shown line takes beside its text
)

// lineMatch is a matching line: bytes start to end, the match at byte at.
type lineMatch struct {
	line           int64 // from 1
	start, end, at int64
}

// lineSearch finds the lines of a content that match a pattern, from the first
// line up to a limit.
type lineSearch struct {
	c       blockContent
	pattern *linematch.Pattern
	limit   int // matches
	budget  int // characters to show; the search stops when they are used up

	found    []lineMatch
	line     int64 // lines before the text that is searched next
	searched int64 // bytes before it
	used     int
}

// run searches. It holds two parts and the beginning of a line in memory.
func (s *lineSearch) run(ctx context.Context) error {
	var carry []byte // the beginning of a line, up to searched+len(carry)
	var long *linematch.LongLine
	for part, err := range readAhead(ctx, s.c) {
		if err != nil {
			return err
		}
		for len(part) > 0 && !s.done() {
			first := bytes.IndexByte(part, '\n')
			switch {
			case first < 0 && long == nil && len(carry)+len(part) <= longLine:
				carry = append(carry, part...)
				part = nil
				continue
			case first < 0 || long != nil || len(carry)+first > longLine:
				if long == nil {
					long = s.pattern.LongLine()
					long.Feed(carry)
					carry = carry[:0]
				}
				if first < 0 {
					long.Feed(part)
					part = nil
					continue
				}
				long.Feed(part[:first])
				if err := s.longLine(ctx, long); err != nil {
					return err
				}
				long, part = nil, part[first+1:]
				continue
			case len(carry) > 0:
				carry = append(carry, part[:first]...)
				if err := s.lines(ctx, carry); err != nil {
					return err
				}
				carry, part = carry[:0], part[first+1:]
				continue
			}
			last := bytes.LastIndexByte(part, '\n')
			if err := s.lines(ctx, part[:last]); err != nil {
				return err
			}
			part = part[last+1:]
		}
		if s.done() {
			return nil
		}
	}
	switch {
	case s.done():
		return nil
	case long != nil:
		return s.longLine(ctx, long)
	}
	return s.lines(ctx, carry) // the last line has no newline, and may be empty
}

func (s *lineSearch) done() bool { return len(s.found) >= s.limit || s.used > s.budget }

func (s *lineSearch) add(m lineMatch) {
	s.found = append(s.found, m)
	s.used += int(min(m.end-m.start, linematch.MaxShown)) + lineCost
}

// lines searches whole lines, which are separated by newlines.
func (s *lineSearch) lines(ctx context.Context, text []byte) error {
	counted, line := 0, s.line
	err := s.pattern.Matches(ctx, text, func(m linematch.Match) bool {
		line += textscan.CountNewlines(text[counted:m.Start])
		counted = m.Start
		s.add(lineMatch{line + 1, s.searched + int64(m.Start), s.searched + int64(m.End), s.searched + int64(m.At)})
		return !s.done()
	})
	if err != nil {
		return err
	}
	s.line = line + textscan.CountNewlines(text[counted:]) + 1
	s.searched += int64(len(text)) + 1
	return nil
}

func (s *lineSearch) longLine(ctx context.Context, long *linematch.LongLine) error {
	start, end := s.searched, s.searched+long.Size
	at, err := long.Find(ctx, io.NewSectionReader(s.c, start, long.Size))
	if err != nil {
		return err
	}
	s.line++
	s.searched = end + 1
	if at >= 0 {
		s.add(lineMatch{s.line, start, end, start + at})
	}
	return nil
}
