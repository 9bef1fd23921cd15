package grep

import (
	"bytes"
	"math"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// maxLiterals bounds the literals that are searched for side by side.
const maxLiterals = 16

// literals is a set of texts. Every match contains one of them, unless the set is
// empty.
type literals struct {
	texts [][]byte // in lower case if fold
	fold  bool     // ASCII letters match in both cases
}

// shortest is the length of the shortest text. A longer one excludes more lines.
func (l literals) shortest() int {
	n := 0
	for i, text := range l.texts {
		if i == 0 || len(text) < n {
			n = len(text)
		}
	}
	return n
}

// longest is the length of the longest text.
func (l literals) longest() int {
	n := 0
	for _, text := range l.texts {
		n = max(n, len(text))
	}
	return n
}

// requiredLiterals finds texts of which every match of re contains one. If exact,
// every text that contains one matches.
func requiredLiterals(re *syntax.Regexp) (need literals, exact bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return literalOf(re)
	case syntax.OpCapture:
		return requiredLiterals(re.Sub[0])
	case syntax.OpPlus:
		return requiredLiterals(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min >= 1 {
			need, exact = requiredLiterals(re.Sub[0])
			return need, exact && re.Min == 1
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if l, _ := requiredLiterals(sub); l.shortest() > need.shortest() {
				need = l
			}
		}
	case syntax.OpAlternate:
		return anyOf(re.Sub)
	}
	return need, false
}

func anyOf(subs []*syntax.Regexp) (all literals, exact bool) {
	exact = true
	for _, sub := range subs {
		l, e := requiredLiterals(sub)
		if len(l.texts) == 0 || len(all.texts)+len(l.texts) > maxLiterals {
			return literals{}, false
		}
		if len(all.texts) > 0 && l.fold != all.fold {
			exact = false // the search ignores the case of all literals or of none
		}
		all.fold = all.fold || l.fold
		all.texts = append(all.texts, l.texts...)
		exact = exact && e
	}
	if all.fold {
		for i, text := range all.texts {
			all.texts[i] = lower(text)
		}
	}
	return all, exact
}

func literalOf(re *syntax.Regexp) (literals, bool) {
	if slices.Contains(re.Rune, utf8.RuneError) { // matches any bad byte
		return literals{}, false
	}
	if re.Flags&syntax.FoldCase == 0 {
		return literals{texts: [][]byte{[]byte(string(re.Rune))}}, true
	}
	best := foldable(re.Rune)
	if len(best) == 0 {
		return literals{}, false
	}
	return literals{texts: [][]byte{lower([]byte(string(best)))}, fold: true}, len(best) == len(re.Rune)
}

// foldable returns the longest part of a text whose case folds within ASCII: k
// and s also fold to runes outside ASCII.
func foldable(text []rune) []rune {
	var best []rune
	start := 0
	for i := 0; i <= len(text); i++ {
		if i < len(text) && text[i] < utf8.RuneSelf && text[i]|0x20 != 'k' && text[i]|0x20 != 's' {
			continue
		}
		if i-start > len(best) {
			best = text[start:i]
		}
		start = i + 1
	}
	return best
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

// literalSearch finds the literals in one text after the other, from left to right.
type literalSearch struct {
	literals
	text []byte // in lower case if fold
	next []int  // for each literal, its next position
}

// nowhere is a position after every text.
const nowhere = math.MaxInt

// reset starts with another text.
func (s *literalSearch) reset(text []byte) {
	if s.text = text; s.fold {
		s.text = lower(text)
	}
	s.next = slices.Repeat([]int{-1}, len(s.texts))
}

// from returns the first position of a literal at or after p, or -1. p must not
// decrease until reset.
func (s *literalSearch) from(p int) int {
	first := nowhere
	for i, literal := range s.texts {
		if s.next[i] < p {
			if s.next[i] = nowhere; p <= len(s.text) {
				if at := bytes.Index(s.text[p:], literal); at >= 0 {
					s.next[i] = p + at
				}
			}
		}
		first = min(first, s.next[i])
	}
	if first == nowhere {
		return -1
	}
	return first
}
