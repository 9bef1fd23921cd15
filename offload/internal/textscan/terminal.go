package textscan

import (
	"strings"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

var (
	// escapes matches the escape sequences of terminals, also one that is cut at the end of a line.
	escapes = lazyregexp.New(`(?m)\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|\][^\x07\x1b\n]*(?:\x07|\x1b\\|$)|[ -/]*[0-~]|$)`)
	// overwritten matches a character that another one overwrites behind a backspace.
	overwritten = lazyregexp.New(`.\x08`)
)

// WithoutEscapes returns a text without colours and what else only a terminal understands.
func WithoutEscapes(text string) string {
	text = escapes.ReplaceAllString(text, "")
	if strings.Contains(text, "\b") { // few texts have one, and the search has no literal prefix
		text = overwritten.ReplaceAllString(text, "")
	}
	return text
}
