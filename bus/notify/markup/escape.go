package markup

import (
	"strings"

	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// The marks of Discord and Mattermost, anywhere in a text and at the start of a
// line. A URL is a link without marks, and a backslash would become part of it.
var (
	inlineMarks = lazyregexp.New("<?https?://[\\w.:/?#@$&=%+,;~-]+|[\\\\`*_\\[~|]|<[@#:/A-Za-z0-9]")
	lineMarks   = lazyregexp.New(`(?m)^([ \t]*)([#>+-]|\d+(?:[.)]))`)
	underline   = lazyregexp.New(`(?m)^[ \t]*=`)
	deepIndent  = lazyregexp.New(`(?m)^[ \t]+`)
)

// EscapeMarkdown escapes a plain text for Discord.
func EscapeMarkdown(text string) string {
	text = inlineMarks.ReplaceAllStringFunc(text, func(mark string) string {
		if strings.HasPrefix(strings.TrimPrefix(mark, "<"), "http") {
			return mark
		}
		return "\\" + mark
	})
	return lineMarks.ReplaceAllStringFunc(text, func(mark string) string {
		last := len(mark) - 1 // the dot of a number
		return mark[:last] + "\\" + mark[last:]
	})
}

// EscapeMattermost escapes a plain text for Mattermost, which also has underlined
// headings and indented code. It cannot escape "<", so a zero-width space follows.
func EscapeMattermost(text string) string {
	text = underline.ReplaceAllStringFunc(text, func(mark string) string { return "\u200b" + mark })
	text = strings.ReplaceAll(EscapeMarkdown(text), `\<`, "<\u200b")
	return deepIndent.ReplaceAllStringFunc(text, func(space string) string {
		return strings.ReplaceAll(strings.ReplaceAll(space, "\t", "    "), " ", "\u00a0")
	})
}

// Escaped returns an upper bound of the size of an escaped character. The text is
// split before it is escaped, because each message starts a line.
func Escaped(measure Unit) Unit {
	return func(r rune) int {
		switch {
		case strings.ContainsRune("\\`*_[~|<#>+-.)=", r):
			return measure(r) + 1
		case r == '\t':
			return 4
		}
		return measure(r)
	}
}
