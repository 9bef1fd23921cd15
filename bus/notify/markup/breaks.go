package markup

import (
	"iter"
	"strings"
)

// Breaks returns the offsets after the empty lines of a Markdown text that are in no fence: there,
// blocks are complete. A line that ends a fence has at least as many of its characters and nothing
// else (section 4.5 of CommonMark 0.31.2).
func Breaks(source string) iter.Seq[int] {
	return func(yield func(at int) bool) {
		at, fence := 0, ""
		for line := range strings.Lines(source) {
			at += len(line)
			text := strings.TrimSpace(line)
			marks := fenceOf(text)
			switch {
			case fence != "":
				if text == marks && strings.HasPrefix(marks, fence) {
					fence = ""
				}
			case marks != "":
				fence = marks
			case text == "" && strings.HasSuffix(line, "\n"):
				if !yield(at) {
					return
				}
			}
		}
	}
}

// fenceOf returns the characters with which a line can begin or end a fence, or "". A line with code
// in three backticks begins none.
func fenceOf(line string) string {
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, mark)
		if n := len(line) - len(rest); n >= 3 && (mark == "~" || !strings.Contains(rest, mark)) {
			return line[:n]
		}
	}
	return ""
}
