package offload

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
)

// previewRunes is the budget of the head and of the tail of a preview.
const previewRunes = 600

// preview returns about the first and the last budget runes of a text, with a line
// between them that says how much is missing; or all of the text if it is short.
func preview(src io.ReaderAt, size, chars int64, budget int) (string, error) {
	head, tail, err := headTail(src, size, budget)
	if err != nil {
		return "", err
	}
	hidden := chars - int64(utf8.RuneCountInString(head)) - int64(utf8.RuneCountInString(tail))
	if tail == "" && hidden == 0 {
		return head, nil
	}
	return fmt.Sprintf("%s\n[... %d characters not shown ...]\n%s", strings.TrimSuffix(head, "\n"), hidden, tail), nil
}

// headTail returns about the first and the last budget runes of a text. It cuts at
// line ends if at least half the budget remains. Of a short text it returns all,
// and an empty tail.
func headTail(src io.ReaderAt, size int64, budget int) (head, tail string, err error) {
	window := int64(budget) * utf8.UTFMax
	if size <= 2*window {
		all, err := readRange(src, 0, size)
		if err != nil || utf8.RuneCount(all) <= 2*budget {
			return string(all), "", err
		}
		return cutHead(all, budget), cutTail(all, budget), nil
	}
	first, err := readRange(src, 0, window)
	if err != nil {
		return "", "", err
	}
	last, err := readRange(src, size-window, window)
	if err != nil {
		return "", "", err
	}
	return cutHead(first, budget), cutTail(last, budget), nil // runes cut at a window's end are not in the budget
}

// cutHead returns the first budget runes of b, or fewer to end with a line.
func cutHead(b []byte, budget int) string {
	end, half := textscan.RunesLen(b, int64(budget)), textscan.RunesLen(b, int64(budget/2+1))
	if i := bytes.LastIndexByte(b[:end], '\n'); i >= half && end < len(b) && b[end] != '\n' {
		end = i + 1
	}
	return string(b[:end])
}

// cutTail returns the last budget runes of b, or fewer to begin with a line.
func cutTail(b []byte, budget int) string {
	count := textscan.CountRunes(b)
	start, half := textscan.RunesLen(b, count-int64(budget)), textscan.RunesLen(b, count-int64(budget/2+1))
	if start == 0 || b[start-1] != '\n' {
		if i := bytes.IndexByte(b[start:], '\n'); i >= 0 && start+i < half {
			start += i + 1
		}
	}
	return string(b[start:])
}

func readRange(src io.ReaderAt, off, n int64) ([]byte, error) {
	b := make([]byte, n)
	if got, err := src.ReadAt(b, off); int64(got) < n {
		return nil, shortRead(err)
	}
	return b, nil
}
