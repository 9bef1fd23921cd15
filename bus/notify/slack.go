package notify

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// writeSlack writes text in Slack's markup, mrkdwn. It cannot escape marks, so
// writeSlack omits a style that would look wrong.
func writeSlack(s styled) string {
	return s.markup(func(sp span, inner string) (before, after string) {
		mark := ""
		switch sp.style {
		case link:
			return "<" + slackURL.Replace(sp.url) + "|", ">"
		case block:
			if strings.Contains(inner, "```") {
				return "", ""
			}
			return "```\n", "\n```"
		case bold:
			mark = "*"
		case italic:
			mark = "_"
		case strike:
			mark = "~"
		case code:
			mark = "`"
		}
		if strings.Contains(inner, mark) {
			return "", ""
		}
		// Slack ignores a mark within a word.
		before, after = mark, mark
		if r, _ := utf8.DecodeLastRuneInString(s.text[:sp.from]); inWord(r) {
			before = "\u200b" + mark
		}
		if r, _ := utf8.DecodeRuneInString(s.text[sp.to:]); inWord(r) {
			after = mark + "\u200b"
		}
		return before, after
	}, slackText.Replace, slackText.Replace)
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// slackURL escapes the URL of a link.
var slackURL = strings.NewReplacer("&", "&amp;", "<", "%3C", ">", "%3E", "|", "%7C")

// slackText escapes links and mentions.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
