package tools

import "unicode/utf8"

// Excerpt returns the first n bytes of s at most, without a part of a character, and
// with an ellipsis if something is missing. It is for untrusted text in messages.
func Excerpt(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
