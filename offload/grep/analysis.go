package grep

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// unbounded is the length of matches that have no limit.
const unbounded = 1 << 30

// longest returns how many bytes a match of re can have, or unbounded.
func longest(re *syntax.Regexp) int {
	n := 0
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune) * utf8.UTFMax
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		n = utf8.UTFMax
	case syntax.OpStar, syntax.OpPlus:
		if longest(re.Sub[0]) > 0 {
			return unbounded
		}
	case syntax.OpRepeat:
		n = longest(re.Sub[0])
		if re.Max < 0 && n > 0 {
			return unbounded
		}
		n *= max(re.Max, 0)
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			n = max(n, longest(sub))
		}
	default:
		for _, sub := range re.Sub {
			n += longest(sub)
		}
	}
	return min(n, unbounded)
}

// isWide reports whether re repeats "any character" without limit.
func isWide(re *syntax.Regexp) bool {
	for _, sub := range re.Sub {
		any := sub.Op == syntax.OpAnyCharNotNL || sub.Op == syntax.OpCharClass && isNearlyAny(sub.Rune)
		repeated := re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && re.Max < 0
		if any && repeated || isWide(sub) {
			return true
		}
	}
	return false
}

// isNearlyAny reports whether a class contains all runes, except perhaps the newline.
func isNearlyAny(ranges []rune) bool {
	n := rune(0)
	for i := 0; i+1 < len(ranges); i += 2 {
		n += ranges[i+1] - ranges[i] + 1
	}
	return n >= utf8.MaxRune
}

// hasAssertion reports whether a match of re depends on the text around it.
func hasAssertion(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	return slices.ContainsFunc(re.Sub, hasAssertion)
}
