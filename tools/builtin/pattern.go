package builtin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"regexp/syntax"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	maxPatternLen = 4096
	// maxProgram bounds the compiled pattern: the time to match one byte grows
	// with it.
	maxProgram = 20_000
	// maxSteps is the work (bytes times instructions) that is done without
	// looking at the context. It is well below a second.
	maxSteps = 1 << 25
)

// pattern is a regular expression whose running time is under control.
// RE2 is linear in the text, but the factor is the size of the program, and
// package regexp cannot be interrupted: ((a?){30}){30}b takes half a minute for
// each MiB.
type pattern struct {
	re    *regexp.Regexp
	insts int
}

func compilePattern(expr string, ignoreCase bool) (pattern, error) {
	if expr == "" {
		return pattern{}, tools.Errorf(tools.CodeInvalidArguments, "the pattern is empty")
	}
	if len(expr) > maxPatternLen {
		return pattern{}, tools.Errorf(tools.CodeInvalidArguments, "the pattern has %d bytes; at most %d are accepted", len(expr), maxPatternLen)
	}
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(expr, flags)
	if err != nil {
		reason := err.Error()
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			reason = e.Code.String()
			if e.Expr != expr {
				reason += " at " + e.Expr
			}
		}
		return pattern{}, tools.Errorf(tools.CodeInvalidArguments, "the pattern %q is not a valid RE2 expression: %s", expr, reason)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return pattern{}, tools.Errorf(tools.CodeInvalidArguments, "the pattern %q does not compile: %v", expr, err)
	}
	if len(prog.Inst) > maxProgram {
		return pattern{}, tools.Errorf(tools.CodeInvalidArguments, "the pattern %q is too complex: it compiles to %d steps, at most %d are accepted; use smaller repetitions", expr, len(prog.Inst), maxProgram)
	}
	if ignoreCase {
		expr = "(?i:" + expr + ")"
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return pattern{}, tools.Errorf(tools.CodeInvalidArguments, "the pattern %q does not compile: %v", expr, err)
	}
	return pattern{re: re, insts: len(prog.Inst)}, nil
}

// find returns the first match in a line that is in memory.
func (p pattern) find(line []byte) []int { return p.re.FindIndex(line) }

// quick says whether find is fast enough for a line of n bytes.
func (p pattern) quick(n int) bool { return n*p.insts <= maxSteps }

// findIn returns the first match in the line that starts at offset of f, which
// may be of any length: it is read as it is matched, until ctx ends.
func (p pattern) findIn(ctx context.Context, f *os.File, offset int64) ([]int, error) {
	r := &lineRunes{ctx: ctx, src: bufio.NewReaderSize(io.NewSectionReader(f, offset, 1<<62-offset), 64<<10)}
	loc := p.re.FindReaderIndex(r)
	return loc, r.err
}

// lineRunes reads one line, without its end.
type lineRunes struct {
	ctx  context.Context // the matcher takes no context, so it comes with the text
	src  *bufio.Reader
	read int
	err  error
}

func (r *lineRunes) ReadRune() (rune, int, error) {
	if r.err != nil {
		return 0, 0, io.EOF
	}
	if r.read++; r.read%1024 == 0 && r.ctx.Err() != nil {
		r.err = ended(r.ctx)
		return 0, 0, io.EOF
	}
	c, size, err := r.src.ReadRune()
	if err != nil {
		if err != io.EOF {
			r.err = err
		}
		return 0, 0, io.EOF
	}
	if c == '\r' {
		if next, err := r.src.Peek(1); err == nil && next[0] == '\n' {
			return 0, 0, io.EOF
		}
	}
	if c == '\n' {
		return 0, 0, io.EOF
	}
	return c, size, nil
}
