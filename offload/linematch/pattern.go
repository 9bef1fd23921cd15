// Package linematch finds the lines of a text that match a regular expression. Its
// bounds keep a hostile pattern from taking the memory or the time of a worker.
package linematch

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"

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
	literal literalSearch // every matching line contains one of its literals
	exact   bool          // every line that contains a literal matches
	cost    int           // estimate of the steps that re takes for each byte
}

// Match is a line that matches: the bytes Start to End, without the newline. The
// match begins at At, or At is -1 if no line matches.
type Match struct{ Start, End, At int }

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
		return nil, tools.Errorf(tools.CodeInvalidArguments, "bad pattern %q: %v (the syntax is RE2: no look-around, no back-references)", tools.Excerpt(expr, 200), err)
	}
	cost := programSize(tree)
	if cost > maxProgram {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "the pattern %q is too large: it expands to more than %d steps; use smaller repetitions", tools.Excerpt(expr, 200), maxProgram)
	}
	tree = perLine(tree)
	re, err := regexp.Compile(tree.String())
	if err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "bad pattern %q: %v", tools.Excerpt(expr, 200), err)
	}
	p := &Pattern{re: re, cost: cost + 1}
	p.literal.literals, p.exact = requiredLiterals(tree)
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

// Matches yields the lines of text that match. It stops with the error of ctx.
func (p *Pattern) Matches(ctx context.Context, text []byte, yield func(Match) bool) error {
	p.literal.reset(text)
	for from := 0; from <= len(text); {
		m, err := p.next(ctx, text, from)
		if err != nil || m.At < 0 || !yield(m) {
			return err
		}
		from = m.End + 1
	}
	return nil
}

// Find returns where the first match in text begins, or -1.
func (p *Pattern) Find(ctx context.Context, text []byte) (int64, error) {
	p.literal.reset(text)
	m, err := p.next(ctx, text, 0)
	return int64(m.At), err
}

// next finds the first match at or after from, the start of a line.
func (p *Pattern) next(ctx context.Context, text []byte, from int) (Match, error) {
	if len(p.literal.texts) == 0 {
		return p.nextOf(ctx, text, from)
	}
	for from <= len(text) {
		at := p.literal.from(from)
		if at < 0 {
			break
		}
		m := lineAround(text, at)
		if p.exact {
			return m, nil
		}
		in, err := p.nextOf(ctx, text[m.Start:m.End], 0)
		if m.At = m.Start + in.At; err != nil || in.At >= 0 {
			return m, err
		}
		from = m.End + 1
	}
	return Match{At: -1}, nil
}

// lineAround returns the line that contains position at.
func lineAround(text []byte, at int) Match {
	m := Match{Start: bytes.LastIndexByte(text[:at], '\n') + 1, End: len(text), At: at}
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		m.End = at + n
	}
	return m
}

// nextOf applies the regexp to pieces of the text that take few steps each.
func (p *Pattern) nextOf(ctx context.Context, text []byte, from int) (Match, error) {
	size := max(maxSteps/p.cost, 1<<10)
	for from <= len(text) {
		if err := ctx.Err(); err != nil {
			return Match{At: -1}, err
		}
		end := len(text)
		if end-from > size {
			if cut := bytes.LastIndexByte(text[from:from+size], '\n'); cut >= 0 {
				end = from + cut
			} else {
				end = lineAround(text, from).End
			}
		}
		at := -1
		if end-from > size {
			in, err := p.inStream(ctx, bytes.NewReader(text[from:end]))
			if err != nil {
				return Match{At: -1}, err
			}
			at = int(in)
		} else if loc := p.re.FindIndex(text[from:end]); loc != nil {
			at = loc[0]
		}
		if at >= 0 {
			return lineAround(text, from+at), nil
		}
		from = end + 1
	}
	return Match{At: -1}, nil
}

// inStream finds the first match in a line that a reader gives, or -1.
func (p *Pattern) inStream(ctx context.Context, r io.Reader) (int64, error) {
	checked := &checkedReader{ctx: ctx, r: r}
	loc := p.re.FindReaderIndex(bufio.NewReaderSize(checked, 1<<10))
	switch {
	case checked.err != nil:
		return -1, checked.err
	case loc == nil:
		return -1, nil
	}
	return int64(loc[0]), nil
}

// checkedReader ends with its context. It keeps the error that regexp ignores.
type checkedReader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (c *checkedReader) Read(p []byte) (int, error) {
	if c.err = c.ctx.Err(); c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
