package cli

import (
	"strings"
	"unicode"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// plainWord matches text that a shell does not change.
var plainWord = lazyregexp.New(`^[A-Za-z0-9_./:@%+,=-]+$`)

// ShellWord quotes a text for the command line of a shell. It removes control
// characters, which a terminal would interpret.
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
