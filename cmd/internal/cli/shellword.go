package cli

import (
	"regexp"
	"strings"
	"unicode"
)

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// ShellWord writes a text as it can be pasted into the command line of a shell.
// Control characters, which would do something else on the way, are left out.
func ShellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
