package offload

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
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
	return cutHead(wholeRunes(first), budget), cutTail(dropPartial(last), budget), nil
}

// cutHead returns the first budget runes of b, or fewer to end with a line.
func cutHead(b []byte, budget int) string {
	end, half := 0, 0
	for n := 0; n < budget && end < len(b); n++ {
		_, size := utf8.DecodeRune(b[end:])
		end += size
		if n == budget/2 {
			half = end
		}
	}
	head := string(b[:end])
	if i := strings.LastIndexByte(head, '\n'); i >= half && half > 0 && end < len(b) && b[end] != '\n' {
		return head[:i+1]
	}
	return head
}

// cutTail returns the last budget runes of b, or fewer to begin with a line.
func cutTail(b []byte, budget int) string {
	start, half := len(b), len(b)
	for n := 0; n < budget && start > 0; n++ {
		_, size := utf8.DecodeLastRune(b[:start])
		start -= size
		if n == budget/2 {
			half = start
		}
	}
	if start > 0 && b[start-1] == '\n' {
		return string(b[start:])
	}
	tail := string(b[start:])
	if i := strings.IndexByte(tail, '\n'); i >= 0 && start+i < half {
		return tail[i+1:]
	}
	return tail
}

// dropPartial removes the end of a rune from the start of b.
func dropPartial(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

func readRange(src io.ReaderAt, off, n int64) ([]byte, error) {
	b := make([]byte, n)
	if got, err := src.ReadAt(b, off); int64(got) < n {
		return nil, shortRead(err)
	}
	return b, nil
}
