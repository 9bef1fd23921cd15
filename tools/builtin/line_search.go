package builtin

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// searchBuffer is the longest line that is held in memory.
	searchBuffer = 64 << 10
	// shownLine is how much of a long line is shown, in bytes.
	shownLine = 500
)

// lineSearch writes the lines of files that match.
type lineSearch struct {
	pattern pattern
	context int // lines around a match
	max     int
	out     io.Writer

	found int
}

func (s *lineSearch) full() bool { return s.found >= s.max }

// fileSearch is the search of one file.
type fileSearch struct {
	*lineSearch
	f      *os.File
	shown  string   // the file's name in the output
	number int      // of the current line
	before []string // the lines before it that were not written
	after  int      // how many lines are still to be written as context
	last   int      // the last line written
}

// search goes through f line by line. It holds no more than a buffer, however
// long the lines are.
func (s *lineSearch) search(ctx context.Context, f *os.File, shown string) error {
	fs := &fileSearch{lineSearch: s, f: f, shown: shown}
	src := bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), searchBuffer)
	for offset := int64(0); ; {
		fs.number++
		line, err := src.ReadSlice('\n')
		size := int64(len(line))
		whole := err != bufio.ErrBufferFull
		for err == bufio.ErrBufferFull { // skip the rest; it is matched from the file
			if ctx.Err() != nil {
				return ended(ctx)
			}
			line, err = src.ReadSlice('\n')
			size += int64(len(line))
		}
		if err != nil && err != io.EOF {
			return err
		}
		if size == 0 {
			return nil
		}
		if !whole {
			line = nil
		}
		if serr := fs.line(ctx, line, offset, size); serr != nil {
			return serr
		}
		offset += size
		if err == io.EOF || s.full() && fs.after == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx)
		}
	}
}

// line handles one line: text is nil if it is too long for the buffer.
func (s *fileSearch) line(ctx context.Context, text []byte, offset, size int64) error {
	var loc []int
	var err error
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if !s.full() {
		if text != nil && s.pattern.quick(len(text)) {
			loc = s.pattern.find(text)
		} else if loc, err = s.pattern.findIn(ctx, s.f, offset); err != nil {
			return err
		}
	}
	switch {
	case loc != nil:
		s.found++
		err = s.match(text, loc, offset, size)
	case s.after > 0:
		s.after--
		err = s.write('-', s.number, s.clip(text, 0, offset, size))
	case s.context > 0:
		if len(s.before) == s.context {
			s.before = append(s.before[:0], s.before[1:]...)
		}
		s.before = append(s.before, s.clip(text, 0, offset, size))
	}
	return err
}

func (s *fileSearch) match(text []byte, loc []int, offset, size int64) error {
	first := s.number - len(s.before)
	if s.context > 0 && s.found > 1 && (s.last == 0 || first > s.last+1) {
		if _, err := io.WriteString(s.out, "--\n"); err != nil {
			return err
		}
	}
	for i, line := range s.before {
		if err := s.write('-', first+i, line); err != nil {
			return err
		}
	}
	s.before, s.after = s.before[:0], s.context
	return s.write(':', s.number, s.clip(text, int64(loc[0]), offset, size))
}

func (s *fileSearch) write(mark byte, number int, text string) error {
	s.last = number
	_, err := fmt.Fprintf(s.out, "%s%c%d%c %s\n", s.shown, mark, number, mark, text)
	return err
}

// clip is what is shown of a line: all of it, or what is around position at.
func (s *fileSearch) clip(text []byte, at, offset, size int64) string {
	if text != nil && len(text) <= shownLine {
		return string(text)
	}
	from := max(at-shownLine/3, 0)
	window := make([]byte, min(shownLine, size-from))
	n, _ := s.f.ReadAt(window, offset+from) // a file cut meanwhile shows less
	window = bytes.TrimRight(window[:n], "\r\n")
	clipped := strings.ToValidUTF8(string(window), "") // the ends may cut a rune
	if from > 0 {
		clipped = "..." + clipped
	}
	if from+int64(len(window)) < size-2 {
		clipped += "..."
	}
	return clipped
}
