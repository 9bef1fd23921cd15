package offload

import (
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxPattern = 4 << 10 // bytes
	maxProgram = 10_000  // instructions, about
)

// pattern matches lines, many at a time: its regexp is rewritten so that it
// gives on a piece of text with many lines what the original gives on each line
// alone.
type pattern struct {
	re   *regexp.Regexp
	need literals // one of them stands in every line that matches
	// exact says that need decides alone.
	exact bool
	// cost is about how many steps the regexp may take for each byte.
	cost int
}

// compilePattern compiles an RE2 pattern. What is wrong with it is told in an
// *tools.Error.
func compilePattern(expr string, ignoreCase bool) (*pattern, error) {
	if len(expr) > maxPattern {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the pattern has %d bytes; at most %d are accepted", len(expr), maxPattern)
	}
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(expr, flags)
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "bad pattern %q: %v (the syntax is RE2: no look-around, no back-references)", shorten(expr, 200), err)
	}
	cost := programSize(tree)
	if cost > maxProgram {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the pattern %q is too large: its repetitions expand to over %d steps", shorten(expr, 200), maxProgram)
	}
	tree = perLine(tree)
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "bad pattern %q: %v", shorten(expr, 200), err)
	}
	need, exact := requiredLiterals(tree)
	return &pattern{re: re, need: need, exact: exact, cost: cost + 1}, nil
}

// programSize estimates how many instructions a regexp compiles to, and stops
// counting somewhere above maxProgram.
func programSize(re *syntax.Regexp) int {
	size := 1
	if re.Op == syntax.OpLiteral {
		size = len(re.Rune)
	}
	for _, sub := range re.Sub {
		size = min(size+programSize(sub), maxProgram+1)
	}
	if re.Op == syntax.OpRepeat {
		size = min(size*max(re.Min, re.Max, 1), maxProgram+1)
	}
	return size
}

// perLine rewrites a regexp so that it matches within a line of a longer text,
// and nothing but that: no newline, and the ends of the text are the ends of
// the line.
func perLine(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			re.Op = syntax.OpNoMatch
		}
	case syntax.OpCharClass:
		re.Rune = withoutNewline(re.Rune)
		if len(re.Rune) == 0 {
			re.Op = syntax.OpNoMatch
		}
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
	}
	for i, sub := range re.Sub {
		re.Sub[i] = perLine(sub)
	}
	return re
}

// withoutNewline takes '\n' out of a class, a list of ranges.
func withoutNewline(ranges []rune) []rune {
	var out []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo > '\n' || hi < '\n' {
			out = append(out, lo, hi)
			continue
		}
		if lo < '\n' {
			out = append(out, lo, '\n'-1)
		}
		if hi > '\n' {
			out = append(out, '\n'+1, hi)
		}
	}
	return out
}
