package grep

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"iter"
)

const (
	maxLine = 1 << 20 // bytes of the longest line that is held in memory
	maxHits = 64      // positions that a Line lists
)

// Search finds the lines of a text that match a pattern. Set the first group of
// fields, call Run, and read the second group. It holds one part of the text and the
// beginning of a line in memory, whatever the length of the text and of its lines.
type Search struct {
	Pattern *Pattern
	// Source is the whole text. Lines that do not fit into memory are read again.
	Source io.ReaderAt
	// Found gets each matching line, in order. When it returns false, the search only
	// counts.
	Found func(Line) (more bool, err error)
	// StopWhenFull ends the search when Found returns false.
	StopWhenFull bool
	// From is the first byte at which a match may begin.
	From int64

	// Lines counts the lines before the text that is searched next, which begins at
	// byte Searched. To search from the middle of a text, set both before Run to the
	// start of a line.
	Lines    int64
	Searched int64
	// Next is the first byte after the matches that are counted and the text before Searched.
	// If Run returned an error, a search from Next counts the other matches.
	Next int64
	// Matches counts the matches. Of a line that matches only the empty text, it
	// counts one.
	Matches int64

	longest int // bytes of the longest line that is held in memory; tests shorten it

	full bool
	line Line // a matching line that is not complete
	any  bool // a match of line is not empty
}

// Line is a line that matches.
type Line struct {
	Number     int64 // from 1
	Start, End int64 // its bytes, without the newline
	// Hits is the number of matches in the line. At contains where the first ones
	// begin.
	Hits int64
	At   []int64
}

// Run searches the parts of the text, which begin at Searched. If it returns an
// error, the results count for the text before Searched, and Matches may count
// more.
func (s *Search) Run(ctx context.Context, parts iter.Seq2[[]byte, error]) error {
	s.longest = cmp.Or(s.longest, maxLine)
	var carry []byte // the beginning of a line
	var long *literalFilter
	size := int64(0) // of the line in long
	for part, err := range parts {
		if err != nil {
			return err
		}
		for len(part) > 0 && !s.done() {
			first := bytes.IndexByte(part, '\n')
			switch {
			case first < 0 && long == nil && len(carry)+len(part) <= s.longest:
				carry = append(carry, part...)
				part = nil
			case first < 0 || long != nil || len(carry)+first > s.longest:
				if long == nil {
					long, size = &literalFilter{p: s.Pattern}, int64(len(carry))
					long.feed(carry)
					carry = carry[:0]
				}
				n := first
				if first < 0 {
					n = len(part)
				}
				long.feed(part[:n])
				size += int64(n)
				if first < 0 {
					part = nil
					break
				}
				if err := s.longLine(ctx, long, size); err != nil {
					return err
				}
				long, part = nil, part[first+1:]
			case len(carry) > 0:
				carry = append(carry, part[:first]...)
				if err := s.lines(ctx, carry); err != nil {
					return err
				}
				carry, part = carry[:0], part[first+1:]
			default:
				last := bytes.LastIndexByte(part, '\n')
				if err := s.lines(ctx, part[:last]); err != nil {
					return err
				}
				part = part[last+1:]
			}
		}
		if s.done() {
			return nil
		}
	}
	switch {
	case s.done():
		return nil
	case long != nil:
		return s.longLine(ctx, long, size)
	case len(carry) == 0: // a newline ends the text, as it ends each line
		return nil
	}
	return s.lines(ctx, carry)
}

func (s *Search) done() bool { return s.full && s.StopWhenFull }

// lines searches whole lines, which are separated by newlines.
func (s *Search) lines(ctx context.Context, text []byte) error {
	if bytes.Contains(text, []byte("\r\n")) || bytes.HasSuffix(text, []byte("\r")) {
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if err := s.block(ctx, bytes.TrimSuffix(line, []byte("\r"))); err != nil || s.done() {
				return err
			}
			s.advance(1, int64(len(line))+1)
		}
		return nil
	}
	if err := s.block(ctx, text); err != nil || s.done() {
		return err
	}
	s.advance(1+int64(bytes.Count(text, []byte("\n"))), int64(len(text))+1)
	return nil
}

func (s *Search) advance(lines, size int64) {
	s.Lines += lines
	s.Searched += size
	s.Next = max(s.Next, s.Searched)
}

// block searches lines that begin at Searched.
func (s *Search) block(ctx context.Context, text []byte) error {
	counted, before := 0, s.Lines // lines before byte counted
	from, end := 0, -1            // the line of the last match
	var stop error
	err := s.Pattern.All(ctx, text, int(max(s.From-s.Searched, 0)), func(start, stopAt int) bool {
		if s.full && !s.Pattern.empty {
			s.Matches++
			s.Next = s.Searched + int64(stopAt)
			return true
		}
		if start > end {
			if stop = s.flush(); stop != nil || s.done() {
				return false
			}
			from, end = lineAround(text, start)
			before += int64(bytes.Count(text[counted:from], []byte("\n")))
			counted = from
			s.begin(Line{Number: before + 1, Start: s.Searched + int64(from), End: s.Searched + int64(end)})
		}
		s.hit(s.Searched+int64(start), s.Searched+int64(stopAt))
		return true
	})
	return cmp.Or(stop, s.flush(), err)
}

// longLine searches a line that is not in memory.
func (s *Search) longLine(ctx context.Context, filter *literalFilter, size int64) error {
	end := s.Searched + size
	if size > 0 {
		var last [1]byte
		if _, err := s.Source.ReadAt(last[:], end-1); err != nil && err != io.EOF {
			return err
		}
		if last[0] == '\r' {
			end--
		}
	}
	if filter.seen {
		s.begin(Line{Number: s.Lines + 1, Start: s.Searched, End: end})
		line := io.NewSectionReader(s.Source, s.Searched, end-s.Searched)
		err := s.Pattern.InLine(ctx, line, max(s.From-s.Searched, 0), line.Size(), func(start, stop int64) bool {
			s.hit(s.Searched+start, s.Searched+stop)
			return true
		})
		if err = cmp.Or(err, s.flush()); err != nil {
			return err
		}
	}
	s.advance(1, size+1)
	return nil
}

func (s *Search) begin(line Line) { s.line, s.any = line, false }

// hit adds a match to the current line.
func (s *Search) hit(start, end int64) {
	empty := start == end
	if s.line.Hits > 0 && empty {
		return
	}
	if empty || s.any || s.line.Hits == 0 {
		s.line.Hits++
	}
	s.any = s.any || !empty
	if s.Next = max(s.Next, end); empty {
		s.Next = max(s.Next, s.line.End+1) // a line counts one empty match
	}
	if len(s.line.At) < maxHits && !s.full {
		s.line.At = append(s.line.At, start)
	}
}

// flush reports the current line.
func (s *Search) flush() (err error) {
	line := s.line
	s.line = Line{}
	if line.Hits == 0 {
		return nil
	}
	s.Matches += line.Hits
	if !s.full {
		var more bool
		more, err = s.Found(line)
		s.full = !more
	}
	return err
}

// Parts yields the bytes from off to the end of src, at most size bytes at a time. A
// part is valid until the next one.
func Parts(ctx context.Context, src io.ReaderAt, off int64, size int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		buf := make([]byte, size)
		for {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			n, err := src.ReadAt(buf, off)
			if n > 0 && !yield(buf[:n], nil) {
				return
			}
			off += int64(n)
			if err == io.EOF || err == nil && n == 0 {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
