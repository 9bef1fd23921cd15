package notify

import (
	"regexp"
	"strings"
)

// What Discord and Mattermost act on, anywhere in a text and where a line begins.
// Addresses are left alone: they are links as they are, and a backslash would
// become part of them.
var (
	inlineMarks = regexp.MustCompile("<?https?://[\\w.:/?#@$&=%+,;~-]+|[\\\\`*_\\[~|]|<[@#:/A-Za-z0-9]")
	lineMarks   = regexp.MustCompile(`(?m)^([ \t]*)([#>+-]|\d+(?:[.)]))`)
	underline   = regexp.MustCompile(`(?m)^[ \t]*=`)
	deepIndent  = regexp.MustCompile(`(?m)^[ \t]+`)
)

// escapeMarkdown makes a plain text one that Discord shows as it is.
func escapeMarkdown(text string) string {
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

// escapeMattermost does so for Mattermost, which also knows underlined headings,
// takes lines that are moved in for code, and has no escape for a "<". What it
// takes for a tag it shows as it is.
func escapeMattermost(text string) string {
	text = underline.ReplaceAllStringFunc(text, func(mark string) string { return "\u200b" + mark })
	text = strings.ReplaceAll(escapeMarkdown(text), `\<`, "<\u200b")
	return deepIndent.ReplaceAllStringFunc(text, func(space string) string {
		return strings.ReplaceAll(strings.ReplaceAll(space, "\t", "    "), " ", "\u00a0")
	})
}

// escaped measures a plain text as it is at most when it is escaped, so that it
// can be cut before: what begins a message begins a line.
func escaped(measure unit) unit {
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
