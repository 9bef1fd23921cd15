package builtin

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/stevedore-bus/stevedore/offload/linematch"
)

// searchBuffer is the longest line, in bytes, that is held in memory.
const searchBuffer = 64 << 10

// lineSearch writes the lines of files that match.
type lineSearch struct {
	pattern *linematch.Pattern
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
	before []string // lines before it that were not written
	after  int      // lines that are still to be written as context
	last   int      // the last line written
}

// fileLine is a line of a file without its end: the bytes start to end.
type fileLine struct {
	text       []byte // nil if the line is longer than the buffer
	start, end int64
}

// search searches f line by line. It holds no more than a buffer in memory.
func (s *lineSearch) search(ctx context.Context, f *os.File, shown string) error {
	fs := &fileSearch{lineSearch: s, f: f, shown: shown}
	src := bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), searchBuffer)
	for offset := int64(0); ; {
		fs.number++
		part, err := src.ReadSlice('\n')
		size := int64(len(part))
		var long *linematch.LongLine
		splitCR := false // the part before this one ends with "\r"
		for ; err == bufio.ErrBufferFull; size += int64(len(part)) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if long == nil {
				long = s.pattern.LongLine()
			}
			long.Feed(part)
			splitCR = part[len(part)-1] == '\r'
			part, err = src.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return err
		}
		if size == 0 {
			return nil
		}
		text := bytes.TrimSuffix(bytes.TrimSuffix(part, []byte("\n")), []byte("\r"))
		line := fileLine{text: text, start: offset, end: offset + size - int64(len(part)-len(text))}
		if long != nil {
			long.Feed(text)
			line.text = nil
			if splitCR && len(text) == 0 {
				line.end--
			}
		}
		if err := fs.line(ctx, line, long); err != nil {
			return err
		}
		offset += size
		if err == io.EOF || s.full() && fs.after == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// line searches one line, and writes it if it matches or is context.
func (s *fileSearch) line(ctx context.Context, line fileLine, long *linematch.LongLine) error {
	at, err := int64(-1), error(nil)
	switch {
	case s.full():
	case long != nil:
		at, err = long.Find(ctx, io.NewSectionReader(s.f, line.start, line.end-line.start))
	default:
		at, err = s.pattern.Find(ctx, line.text)
	}
	if err != nil || at < 0 && s.after == 0 && s.context == 0 {
		return err
	}
	text, err := s.clip(line, max(at, 0))
	switch {
	case err != nil:
		return err
	case at >= 0:
		s.found++
		return s.match(text)
	case s.after > 0:
		s.after--
		return s.write('-', s.number, text)
	case len(s.before) == s.context:
		s.before = append(s.before[:0], s.before[1:]...)
	}
	s.before = append(s.before, text)
	return nil
}

func (s *fileSearch) match(text string) error {
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
	return s.write(':', s.number, text)
}

func (s *fileSearch) write(mark byte, number int, text string) error {
	s.last = number
	_, err := fmt.Fprintf(s.out, "%s%c%d%c %s\n", s.shown, mark, number, mark, text)
	return err
}

// clip returns the text to show of a line: all of it, or the part around byte at.
func (s *fileSearch) clip(line fileLine, at int64) (string, error) {
	if line.text != nil && len(line.text) <= linematch.MaxShown {
		return string(line.text), nil
	}
	text, _, err := linematch.Show(s.f, line.start, line.end, line.start+at)
	return text, err
}
