package notify

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// writeSlack writes text in Slack's markup, mrkdwn. It has no escapes for its
// marks, so that a style is left out rather than shown wrong.
func writeSlack(s styled) string {
	return s.marked(func(sp span, inner string) (before, after string) {
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
		// Within a word, a mark is none to Slack.
		before, after = mark, mark
		if r, _ := utf8.DecodeLastRuneInString(s.text[:sp.from]); inWord(r) {
			before = "\u200b" + mark
		}
		if r, _ := utf8.DecodeRuneInString(s.text[sp.to:]); inWord(r) {
			after = mark + "\u200b"
		}
		return before, after
	}, neutralSlack)
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// slackURL makes an address fit for what stands around it.
var slackURL = strings.NewReplacer("&", "&amp;", "<", "%3C", ">", "%3E", "|", "%7C")

// neutralSlack escapes what Slack's markup begins with, and so its mentions.
func neutralSlack(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
