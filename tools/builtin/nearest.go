package builtin

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxHint is the longest text that a hint quotes, in bytes.
const maxHint = 2000

// maxCompared bounds the lines that are compared to give a hint.
const maxCompared = 10_000_000

// places names the lines where text occurs, the first few.
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

// nearest helps a model whose text is not in the file: it quotes the lines that
// differ from it in white space only, or else says where its longest line is.
func nearest(content, text string) string {
	if strings.ContainsRune(text, utf8.RuneError) && !utf8.ValidString(content) {
		return ". The file is not all UTF-8, and read_file shows U+FFFD for bytes that are not; leave them out of old_text, or use shell"
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
			return fmt.Sprintf(". Its line %q is in line %d of the file; the lines around that differ", longest, i+1)
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
