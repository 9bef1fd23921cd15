package notify

import (
	"regexp"
	"strings"
)

// fenceRoom is more than wholeFences adds to a part, in units of whatever kind.
const fenceRoom = 40

// wholeFences closes the code block in which a part of a Markdown text ends, and
// opens it again in the next one. Its parts are messages of their own.
func wholeFences(parts []styled) []styled {
	open := ""
	for i := range parts {
		text := parts[i].text
		before := open
		open = fenceAfter(open, text)
		if before != "" {
			text = before + "\n" + text
		}
		if open != "" {
			text += "\n" + open[:3]
		}
		parts[i] = styled{text: text}
	}
	return parts
}

// fenceLine is the line that opens a code block, with its language. A backtick
// behind three of them makes it code within a line.
var fenceLine = regexp.MustCompile("^ {0,3}((?:```|~~~)[A-Za-z0-9+-]{0,20})[^`]*$")

// fenceAfter returns the opening of the code block that is open at the end of a
// text, if open was that at its beginning; "" is none.
func fenceAfter(open, text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n\t ")
		switch m := fenceLine.FindStringSubmatch(line); {
		case open == "" && m != nil:
			open = m[1]
		case open != "" && strings.Trim(strings.TrimLeft(line, " "), open[:1]) == "" && strings.HasPrefix(strings.TrimLeft(line, " "), open[:3]):
			open = ""
		}
	}
	return open
}
