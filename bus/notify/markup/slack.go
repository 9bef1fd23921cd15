package markup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// WriteSlack writes text in Slack's markup, mrkdwn. It cannot escape marks, so
// WriteSlack omits a style that would look wrong.
func WriteSlack(s Styled) string {
	return s.markup(func(sp Span, inner string) (before, after string) {
		mark := ""
		switch sp.Style {
		case quotedMark:
			return "", ""
		case Link:
			return "<" + slackURL.Replace(sp.URL) + "|", ">"
		case Block:
			if strings.Contains(inner, "```") {
				return "", ""
			}
			return "```\n", "\n```"
		case Bold:
			mark = "*"
		case Italic:
			mark = "_"
		case Strike:
			mark = "~"
		case Code:
			mark = "`"
		}
		if strings.Contains(inner, mark) {
			return "", ""
		}
		// Slack ignores a mark within a word.
		before, after = mark, mark
		if r, _ := utf8.DecodeLastRuneInString(s.Text[:sp.From]); inWord(r) {
			before = "\u200b" + mark
		}
		if r, _ := utf8.DecodeRuneInString(s.Text[sp.To:]); inWord(r) {
			after = mark + "\u200b"
		}
		return before, after
	}, EscapeSlack, EscapeSlack)
}

func inWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// slackURL escapes the URL of a link.
var slackURL = strings.NewReplacer("&", "&amp;", "<", "%3C", ">", "%3E", "|", "%7C")

// EscapeSlack escapes the links and mentions of Slack in a plain text.
func EscapeSlack(text string) string { return slackText.Replace(text) }

var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
