// Package shorten shows the output of a command to a model in a few lines: its beginning, the
// lines that look like errors, and its end.
package shorten

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

const (
	// shownLines is how many lines each of the three parts has, and shownChars how long a
	// line may be, in bytes.
	shownLines = 8
	shownChars = 160
)

// trouble matches lines that say what went wrong, besides those of offload.SaysFailure.
var trouble = lazyregexp.New(`(?i)\b(error|errors|failed|failure|fatal|panic|exception|traceback|segmentation fault)\b|^\s*(FAIL\b|✗|✘|✖|×|E\s{2,})`)

// hints are in all lines that trouble matches, in lower case: to look for them is 50 times as
// fast.
var hints = []string{"err", "fail", "fatal", "panic", "exception", "traceback", "segmentation", "✗", "✘", "✖", "×", "e  "}

// maxTroubles is how many lines that look like errors are counted.
const maxTroubles = 1000

// isTrouble reports whether a line says what went wrong.
func isTrouble(line string) bool {
	lower := strings.ToLower(line)
	return offload.SaysFailure([]byte(line)) || slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) }) &&
		trouble.MatchString(none.ReplaceAllString(line, ""))
}

// none matches a success that has a word of trouble, also beside failures.
var none = lazyregexp.New(`(?i)\b(0|no|without) (errors?|failed|failures?)\b`)

// Summary is what a model sees of an output.
type Summary struct {
	Lines    int64
	head     []string
	trouble  []string
	troubles int64
	tail     []string
}

// Summarize reads an output to its end. It keeps a few lines in memory.
func Summarize(output io.Reader) (Summary, error) {
	var s Summary
	r := bufio.NewReaderSize(output, 64<<10)
	for {
		line, err := readLine(r)
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.add(line)
	}
}

// readLine returns the start of the next line.
func readLine(r *bufio.Reader) (string, error) {
	part, err := r.ReadSlice('\n')
	line := tools.Excerpt(strings.TrimRight(string(part[:min(len(part), 4*shownChars)]), "\r\n"), shownChars)
	for err == bufio.ErrBufferFull {
		_, err = r.ReadSlice('\n')
	}
	if err == io.EOF && line != "" {
		err = nil
	}
	return tools.EscapeLine(strings.ToValidUTF8(line, "\uFFFD")), err
}

func (s *Summary) add(line string) {
	s.Lines++
	if len(s.head) < shownLines {
		s.head = append(s.head, line)
		return
	}
	if s.troubles < maxTroubles && isTrouble(line) {
		if s.troubles++; s.troubles <= shownLines {
			s.trouble = append(s.trouble, fmt.Sprintf("%d: %s", s.Lines, line))
		}
	}
	s.tail = append(s.tail, line)
	if len(s.tail) > shownLines {
		s.tail = s.tail[1:]
	}
}

// Text returns the summary, with a text that says how to read the rest.
func (s Summary) Text(howToRead string) string {
	var b strings.Builder
	part := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "[%s]\n%s\n", title, strings.Join(lines, "\n"))
		}
	}
	fmt.Fprintf(&b, "%s\n[%s]\n", strings.Join(s.head, "\n"), howToRead)
	title := "lines that look like errors"
	if s.troubles > int64(len(s.trouble)) {
		title = fmt.Sprintf("the first %d of %d lines that look like errors", len(s.trouble), s.troubles)
		if s.troubles == maxTroubles {
			title = fmt.Sprintf("the first %d of more than %d lines that look like errors", len(s.trouble), maxTroubles-1)
		}
	}
	part(title, s.trouble)
	part("the last lines", s.tail)
	return b.String()
}
