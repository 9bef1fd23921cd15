package builtin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/stevedore-bus/stevedore/offload/grep"
)

const (
	searchBuffer  = 256 << 10 // bytes of a file that are read at a time
	contextWindow = 64 << 10  // bytes before a line where its lines of context are looked for
)

// lineSearch writes the lines of files that match.
type lineSearch struct {
	pattern *grep.Pattern
	context int // lines around a match
	max     int
	out     io.Writer

	found int // matching lines
}

func (s *lineSearch) full() bool { return s.found >= s.max }

// fileSearch is the search of one file.
type fileSearch struct {
	*lineSearch
	f     *os.File
	shown string // the file's name in the output
	last  int64  // the last line written
	end   int64  // the byte after it
	after int    // lines that are still to be written as context
}

// search writes the lines of f that match.
func (s *lineSearch) search(ctx context.Context, f *os.File, shown string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return nil // it has no line
	}
	fs := &fileSearch{lineSearch: s, f: f, shown: shown}
	search := &grep.Search{Pattern: s.pattern, Source: f, StopWhenFull: true, Found: fs.match}
	size := min(info.Size(), searchBuffer) + 1 // one more byte finds the end
	if err := search.Run(ctx, fileParts(ctx, f, size)); err != nil {
		return err
	}
	return fs.contextAfter(1 << 62)
}

// fileParts yields a file without the empty line after its last newline.
func fileParts(ctx context.Context, f *os.File, size int64) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		held := false // a newline that may be the last byte
		for part, err := range grep.Parts(ctx, f, 0, int(size)) {
			if held && !yield([]byte("\n"), nil) {
				return
			}
			if held = bytes.HasSuffix(part, []byte("\n")); held {
				part = part[:len(part)-1]
			}
			if !yield(part, err) {
				return
			}
		}
	}
}

// match writes a line that matches, and the lines around it.
func (s *fileSearch) match(line grep.Line) (more bool, err error) {
	if err := s.contextAfter(line.Number); err != nil {
		return false, err
	}
	before, err := s.contextBefore(line)
	if err != nil {
		return false, err
	}
	first := line.Number - int64(len(before))
	if s.context > 0 && s.found > 0 && (s.last == 0 || first > s.last+1) {
		if _, err := io.WriteString(s.out, "--\n"); err != nil {
			return false, err
		}
	}
	for i, text := range before {
		if err := s.write('-', first+int64(i), text); err != nil {
			return false, err
		}
	}
	var text string
	if len(line.At) > 1 {
		text, _, _, err = grep.ShowAll(s.f, line, grep.MaxShown)
	} else {
		text, _, err = grep.Show(s.f, line.Start, line.End, line.At[0])
	}
	if err != nil {
		return false, err
	}
	if line.Hits > 1 && line.End-line.Start > grep.MaxShown {
		text += fmt.Sprintf(" [cut; %d matches in this line]", line.Hits)
	}
	s.found++
	s.last, s.end, s.after = line.Number, line.End, s.context
	return !s.full(), s.write(':', line.Number, text)
}

// contextBefore returns the lines before a match that were not written.
func (s *fileSearch) contextBefore(line grep.Line) (texts []string, err error) {
	n := min(int64(s.context), line.Number-1-s.last)
	for end := line.Start - 1; n > 0; n-- {
		from := max(end-contextWindow, 0)
		window := make([]byte, end-from)
		if m, err := s.f.ReadAt(window, from); m < len(window) {
			return nil, shortRead(err)
		}
		start := from + int64(bytes.LastIndexByte(window, '\n')+1) // or a part of a long line
		text, err := s.clip(start, end)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
		if end = start - 1; start > 0 && start == from && window[0] != '\n' {
			break // the start of the line is too far away
		}
	}
	slices.Reverse(texts)
	return texts, nil
}

// contextAfter writes the lines that follow the last match, up to a line.
func (s *fileSearch) contextAfter(line int64) error {
	for ; s.after > 0 && s.last+1 < line; s.after-- {
		window := make([]byte, contextWindow)
		n, err := s.f.ReadAt(window[:2], s.end) // "\n" or "\r\n"
		if err != nil && err != io.EOF {
			return err
		}
		start := s.end + int64(bytes.IndexByte(window[:n], '\n')+1)
		if start == s.end { // the end of the file
			return nil
		}
		if n, err = s.f.ReadAt(window, start); err != nil && err != io.EOF {
			return err
		}
		end := start + int64(n)
		cut := bytes.IndexByte(window[:n], '\n')
		if cut >= 0 {
			end = start + int64(cut)
		}
		if n == 0 {
			return nil
		}
		text, err := s.clip(start, end)
		if err != nil {
			return err
		}
		if err := s.write('-', s.last+1, text); err != nil {
			return err
		}
		if s.last, s.end = s.last+1, end; cut < 0 {
			s.after = 0 // the end of the line is too far away
			return nil
		}
	}
	s.after = 0
	return nil
}

// clip returns the start of a line of context, without "\r" at its end.
func (s *fileSearch) clip(start, end int64) (string, error) {
	if end > start {
		var last [1]byte
		if _, err := s.f.ReadAt(last[:], end-1); err != nil && err != io.EOF {
			return "", err
		}
		if last[0] == '\r' {
			end--
		}
	}
	text, _, err := grep.Show(s.f, start, end, start)
	return text, err
}

func (s *fileSearch) write(mark byte, number int64, text string) error {
	_, err := fmt.Fprintf(s.out, "%s%c%d%c %s\n", s.shown, mark, number, mark, text)
	return err
}

func shortRead(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
