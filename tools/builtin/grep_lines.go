package builtin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/grep"
)

const (
	searchBuffer  = 256 << 10 // bytes of a file that are read at a time
	contextWindow = 16 << 10  // bytes that are read for each line of context
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
	f     io.ReaderAt
	shown string // the file's name in the output
	last  int64  // the last line written
	end   int64  // the byte after it
	after int    // lines that are still to be written as context
}

// search writes the lines of f that match.
func (s *lineSearch) search(ctx context.Context, f io.ReaderAt, size int64, shown string) error {
	fs := &fileSearch{lineSearch: s, f: f, shown: shown}
	search := &grep.Search{Pattern: s.pattern, Source: f, StopWhenFull: true, Found: fs.match}
	if err := search.Run(ctx, grep.Parts(ctx, f, 0, int(min(size, searchBuffer))+1)); err != nil {
		return err
	}
	return fs.contextAfter(1 << 62)
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
	if n <= 0 {
		return nil, nil
	}
	from := max(line.Start-s.window(), s.end)
	all, err := s.lines(from, line.Start)
	if len(all) > 0 && from > 0 && !isLong(all[0]) { // the end of another line
		all = all[1:]
	}
	for _, l := range all[max(len(all)-int(n), 0):] {
		text, _, showErr := grep.Show(s.f, l[0], l[1], l[0])
		texts, err = append(texts, text), cmp.Or(err, showErr)
	}
	return texts, err
}

// contextAfter writes the lines that follow the last match, up to a line.
func (s *fileSearch) contextAfter(line int64) error {
	n := min(int64(s.after), line-1-s.last)
	if s.after = 0; n <= 0 {
		return nil
	}
	all, err := s.lines(s.end, s.end+s.window())
	for _, l := range all[min(len(all), 1):min(len(all), 1+int(n))] { // the first is the end of the last match
		text, _, showErr := grep.Show(s.f, l[0], l[1], l[0])
		if err = cmp.Or(err, showErr); err == nil {
			s.last, s.end = s.last+1, l[1]
			err = s.write('-', s.last, text)
		}
	}
	return err
}

// window is how many bytes before or after a match may be read for its context.
func (s *fileSearch) window() int64 { return int64(s.context+1) * contextWindow }

// isLong reports whether a part of a line is shown like the whole line, with "…".
func isLong(line [2]int64) bool { return line[1]-line[0] > grep.MaxShown*utf8.UTFMax }

// lines returns where the lines between two bytes of the file begin and end. Of a last line that
// ends later, it returns the part in between if isLong.
func (s *fileSearch) lines(from, to int64) (all [][2]int64, err error) {
	window := make([]byte, max(to-from, 0))
	n, err := s.f.ReadAt(window, from)
	if err != nil && err != io.EOF {
		return nil, err
	}
	for line := range bytes.Lines(window[:n]) {
		text := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		all = append(all, [2]int64{from, from + int64(len(text))})
		from += int64(len(line))
	}
	if n == len(window) && n > 0 && window[n-1] != '\n' && !isLong(all[len(all)-1]) {
		all = all[:len(all)-1]
	}
	return all, nil
}

func (s *fileSearch) write(mark byte, number int64, text string) error {
	_, err := fmt.Fprintf(s.out, "%s%c%d%c %s\n", s.shown, mark, number, mark, text)
	return err
}
