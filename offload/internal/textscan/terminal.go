package textscan

import "github.com/stevedore-bus/stevedore/tools/lazyregexp"

// escapes matches the escape sequences of terminals, also one that is cut at the end of a line, and a character that
// another one overwrites behind a backspace.
var escapes = lazyregexp.New(`(?m)\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|\][^\x07\x1b\n]*(?:\x07|\x1b\\|$)|[ -/]*[0-~]|$)|.\x08`)

// WithoutEscapes returns a text without colours and what else only a terminal understands.
func WithoutEscapes(text string) string { return escapes.ReplaceAllString(text, "") }
