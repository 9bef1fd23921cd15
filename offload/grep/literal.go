package grep

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// requiredLiteral returns the longest text that it finds in every match of re. If exact, it
// is all that re matches. A dfa finds the lines of patterns that have none.
func requiredLiteral(re *syntax.Regexp) (text []byte, exact bool) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 && !slices.Contains(re.Rune, utf8.RuneError) { // which matches any bad byte
			return []byte(string(re.Rune)), true
		}
	case syntax.OpCapture:
		return requiredLiteral(re.Sub[0])
	case syntax.OpPlus, syntax.OpRepeat:
		if re.Op == syntax.OpPlus || re.Min >= 1 {
			text, _ = requiredLiteral(re.Sub[0]) // a match may be longer
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if l, _ := requiredLiteral(sub); len(l) > len(text) {
				text = l
			}
		}
	}
	return text, false
}

// foldedLiteral returns the text, in lower case, that is all a regexp matches, in any case of ASCII.
// The letters k and s also have other cases.
func foldedLiteral(re *syntax.Regexp) (text []byte) {
	if re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase == 0 {
		return nil
	}
	text = lower([]byte(string(re.Rune)))
	if slices.ContainsFunc(text, func(c byte) bool { return c >= utf8.RuneSelf || c == 'k' || c == 's' }) {
		return nil
	}
	return text
}

// lower returns a copy of text with its ASCII letters in lower case.
func lower(text []byte) []byte {
	out := bytes.Clone(text)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}
