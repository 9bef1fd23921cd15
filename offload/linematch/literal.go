package linematch

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

// literalSearch finds the literals in one text after the other, from left to
// right. For each literal it looks for the byte that is rarest in the first text,
// with the fast bytes.IndexByte, and compares the literal there.
type literalSearch struct {
	literals
	text []byte
	seek []literalSeeker
}

// literalSeeker looks for one literal.
type literalSeeker struct {
	rare  int     // offset in the literal of its rarest byte
	cases [2]byte // that byte, in both cases if they differ
	ahead [2]int  // next position of that byte, for each case
	next  int     // next position of the literal
	wrong int     // candidates in this text that were not the literal
}

const (
	nowhere    = math.MaxInt // a position after every text
	rareSample = 32 << 10    // bytes of text that decide which bytes are rare
)

// reset starts with another text.
func (s *literalSearch) reset(text []byte) {
	s.text = text
	if s.seek == nil {
		s.chooseRare(text)
	}
	for i := range s.seek {
		s.seek[i].ahead, s.seek[i].next, s.seek[i].wrong = [2]int{-1, -1}, -1, 0
	}
}

func (s *literalSearch) chooseRare(text []byte) {
	var count [256]int
	for _, c := range text[:min(len(text), rareSample)] {
		count[c]++
	}
	s.seek = make([]literalSeeker, len(s.texts))
	for i, literal := range s.texts {
		best := -1
		for at, c := range literal {
			other := s.otherCase(c)
			n := count[c]
			if other != c {
				n += count[other]
			}
			if best < 0 || n < best {
				best = n
				s.seek[i].rare, s.seek[i].cases = at, [2]byte{c, other}
			}
		}
	}
}

// otherCase returns the upper case of a letter if it matches too, otherwise c.
func (s *literalSearch) otherCase(c byte) byte {
	if s.fold && 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// from returns the first position of a literal at or after p, or -1. p must not
// decrease until reset.
func (s *literalSearch) from(p int) int {
	first := nowhere
	for i := range s.seek {
		k := &s.seek[i]
		if k.next < p {
			k.next = s.find(k, s.texts[i], p)
		}
		first = min(first, k.next)
	}
	if first == nowhere {
		return -1
	}
	return first
}

// find looks for one literal at or after p.
func (s *literalSearch) find(k *literalSeeker, literal []byte, p int) int {
	for {
		at := k.candidate(s.text, p+k.rare)
		if at == nowhere {
			return nowhere
		}
		start := at - k.rare
		if s.equal(start, literal) {
			return start
		}
		p = start + 1
		if k.wrong++; !s.fold && k.wrong > 64+start/16 { // the byte is not rare here
			if i := bytes.Index(s.text[p:], literal); i >= 0 {
				return p + i
			}
			return nowhere
		}
	}
}

// candidate returns the next position of the rare byte at or after p, or nowhere.
func (k *literalSeeker) candidate(text []byte, p int) int {
	for i, c := range k.cases {
		if i == 1 && c == k.cases[0] {
			return k.ahead[0]
		}
		if k.ahead[i] < p {
			k.ahead[i] = nowhere
			if p < len(text) {
				if at := bytes.IndexByte(text[p:], c); at >= 0 {
					k.ahead[i] = p + at
				}
			}
		}
	}
	return min(k.ahead[0], k.ahead[1])
}

func (s *literalSearch) equal(start int, literal []byte) bool {
	if len(literal) > len(s.text)-start {
		return false
	}
	text := s.text[start : start+len(literal)]
	if !s.fold {
		return bytes.Equal(text, literal)
	}
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != literal[i] {
			return false
		}
	}
	return true
}
