package tools

import (
	"strings"
	"unicode/utf8"
)

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

// OneLine replaces line breaks and invisible characters in s by spaces, for tables and
// headers.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\t' || invisible(r) }), " ")
}

// Redact replaces secrets in a text. Short ones stay: they would hide ordinary words.
func Redact(text string, secrets ...string) string {
	for _, secret := range secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return text
}
