package tools

import "unicode/utf8"

// Excerpt returns the start of s, at most n bytes and not inside a character,
// with an ellipsis if anything is missing. It is for texts from outside that
// stand in messages.
func Excerpt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
