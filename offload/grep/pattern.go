// Package grep finds the lines of a text that match a regular expression. The tool grep
// uses it for files and grep_knowledge for artifacts.
//
// Texts and lines may have any length: a Search reads from an io.ReaderAt and holds one
// part of the text and at most 1 MiB of a line in memory. It searches many lines at once,
// and first for a literal that every match contains, where the pattern has one. The result
// is the same as matching each line alone.
//
// Patterns come from models, so they are hostile. RE2 has no exponential patterns, Compile
// refuses large programs, and the search checks its context after a bounded amount of work,
// because package regexp cannot be interrupted. The package stores nothing.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package grep

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/stevedore-bus/stevedore/tools"
)

// Bounds for everyone who searches lines.
const (
	MaxPattern = 4 << 10 // bytes of a pattern
	MaxContext = 100     // lines to show before or after a match
	MaxShown   = 1_000   // runes to show of a line
)

const (
	// maxProgram bounds the instructions of a program: the time to match one byte
	// grows with the program, about 10 ns per instruction.
	maxProgram = 20_000
	// maxSteps is the work (bytes times instructions) between two checks of the
	// context: package regexp cannot be interrupted.
	maxSteps = 1 << 24
)

// Pattern matches lines. It is not safe for concurrent use.
type Pattern struct {
	// re gives on a text of many lines what the original gives on each line.
	re      *regexp.Regexp
	literal []byte // every match contains it, if it is not nil
	exact   bool   // the pattern is literal
	folded  []byte // the pattern, in lower case, if it is a literal in any case
	dfa     *dfa   // finds the lines to search
	cost    int    // estimate of the steps that re takes for each byte
	longest int    // bytes of the longest match, or unbounded
	wide    bool   // contains .* or similar: a match may be as long as its line
	empty   bool   // matches the empty text
	asserts bool   // contains ^, $, \b or \B, which depend on the text around a match
	// resume finds the first match after the first rune of a text.
	resume func() *regexp.Regexp
}

var basic = strings.NewReplacer(`\\`, `\\`, `\|`, "|", `\<`, `\b`, `\>`, `\b`)

// Basic returns in RE2 a pattern that may have the \| and \< of grep.
func Basic(pattern string) string { return basic.Replace(pattern) }

// Compile compiles an RE2 pattern; fold ignores case. If the pattern is bad or too
// large, the error is a *tools.Error that says what is wrong.
func Compile(expr string, fold bool) (*Pattern, error) {
	switch {
	case expr == "":
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the pattern is empty")
	case len(expr) > MaxPattern:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the pattern has %d bytes; at most %d are accepted", len(expr), MaxPattern)
	}
	flags := syntax.Perl
	if fold {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(expr, flags)
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "bad pattern %q: %v (the syntax is RE2: no look-around, no "+
			"back-references)", tools.Excerpt(expr, 200), err)
	}
	cost := programSize(tree)
	if cost > maxProgram {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the pattern %q is too large: it expands to more than %d steps; use smaller "+
			"repetitions", tools.Excerpt(expr, 200), maxProgram)
	}
	tree = perLine(tree)
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "bad pattern %q: %v", tools.Excerpt(expr, 200), err)
	}
	p := &Pattern{re: re, cost: cost + 1, longest: longest(tree), wide: isWide(tree), empty: re.MatchString(""), asserts: hasAssertion(tree)}
	p.resume = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\A(?s:.)(?s:.*?)(?P<match>` + tree.String() + `)`)
	})
	p.literal, p.exact = requiredLiteral(tree)
	p.folded = foldedLiteral(tree)
	if p.dfa, err = newDFA(tree); err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "bad pattern %q: %v", tools.Excerpt(expr, 200), err)
	}
	return p, nil
}

// programSize returns how many instructions a regexp compiles to, or a few more. It
// stops counting above maxProgram.
func programSize(re *syntax.Regexp) int {
	size := 0
	for _, sub := range re.Sub {
		size = min(size+programSize(sub), maxProgram+1)
	}
	switch re.Op {
	case syntax.OpConcat:
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpAlternate:
		size += len(re.Sub) - 1
	case syntax.OpCapture:
		size += 2
	case syntax.OpRepeat:
		size *= max(re.Min, re.Max, 1)
		if re.Max < 0 {
			size++
		} else {
			size += re.Max - re.Min
		}
	default:
		size++
	}
	return min(size, maxProgram+1)
}

// perLine rewrites a regexp so that it matches only within a line of a longer
// text: it matches no newline, and the ends of the text become the ends of the line.
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

// withoutNewline removes '\n' from a class, which is a list of ranges.
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
