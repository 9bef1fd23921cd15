package builtin

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxHint is the longest quotation in a hint, in bytes.
const maxHint = 2000

// maxCompared is the largest number of line comparisons for a hint.
const maxCompared = 10_000_000

// places lists the first lines where text occurs.
func places(content, text string) string {
	const most = 5
	var lines []string
	for from := 0; len(lines) < most; {
		i := strings.Index(content[from:], text)
		if i < 0 {
			return "lines " + strings.Join(lines, ", ")
		}
		lines = append(lines, fmt.Sprint(1+strings.Count(content[:from+i], "\n")))
		from += i + 1
	}
	return "lines " + strings.Join(lines, ", ") + ", ..."
}

// nearest returns a hint for a model whose text is not in the file: the lines that
// differ from the text in white space only, or the line of its longest line.
func nearest(content, text string) string {
	if strings.Contains(text, `\x`) && !utf8.ValidString(content) {
		return ". The file is not valid UTF-8, and read_file shows \\xNN for invalid bytes; use an old_text without them, or use shell"
	}
	have, want := strings.Split(content, "\n"), strings.Split(strings.Trim(text, "\r\n"), "\n")
	for i := range have[:max(min(len(have)-len(want)+1, maxCompared/len(want)), 0)] {
		if sameButSpace(have[i:i+len(want)], want) {
			quote := strings.Join(have[i:i+len(want)], "\n")
			if len(quote) > maxHint {
				return fmt.Sprintf(". Lines %d to %d differ from it in white space only", i+1, i+len(want))
			}
			return fmt.Sprintf(". Lines %d to %d differ from it in white space only:\n%s", i+1, i+len(want), quote)
		}
	}
	longest := ""
	for _, line := range want {
		if line = strings.TrimSpace(line); len(line) > len(longest) {
			longest = line
		}
	}
	if longest == "" || len(want) == 1 {
		return ""
	}
	for i, line := range have {
		if strings.Contains(line, longest) && len(line) < maxHint {
			return fmt.Sprintf(". Line %d of the file contains %q, but the lines around it differ", i+1, longest)
		}
	}
	return ""
}

func sameButSpace(have, want []string) bool {
	some := false
	for i := range want {
		if !equalFields(have[i], want[i]) {
			return false
		}
		some = some || strings.TrimSpace(want[i]) != ""
	}
	return some
}

func equalFields(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	return a == b || strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}
