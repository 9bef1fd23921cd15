package offload

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/offload/linematch"
)

// reasonTime bounds the searches that explain why nothing matches.
const reasonTime = 2 * time.Second

var (
	noMinimum   = regexp.MustCompile(`\{,\d+\}`)
	asciiClass  = regexp.MustCompile(`\\[bBwWdD]`)
	lookForLine = regexp.MustCompile(`\\n|\n`)
)

// whyNoMatch returns possible reasons why a pattern does not match.
func (r *Reader) whyNoMatch(ctx context.Context, c blockContent, q GrepQuery) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, min(reasonTime, r.cfg.GrepTime))
	defer cancel()
	var head []byte
	if c.Size() > 0 {
		head, _ = c.Block(0) // without it, fewer reasons are found
	}
	if q.Offset > 0 {
		notes = append(notes, fmt.Sprintf("the search began at offset %d", q.Offset))
	}
	if noMinimum.MatchString(q.Pattern) {
		notes = append(notes, "{,n} is literal text in RE2; write {0,n}")
	}
	if lookForLine.MatchString(q.Pattern) {
		notes = append(notes, "each line is matched separately, so a pattern with a newline never matches; use context_after")
	}
	if bytes.Contains(head, []byte("\r\n")) && strings.Contains(q.Pattern, "$") {
		notes = append(notes, `the lines end in \r\n, and $ matches only after the \r; write \r?$`)
	}
	if asciiClass.MatchString(q.Pattern) && !isASCII(head) {
		notes = append(notes, `\b, \w and \d know only ASCII letters and digits; write [\p{L}\d_] for other letters`)
	}
	try := func(expr string, fold bool, note string) {
		p, err := linematch.Compile(expr, fold)
		if err != nil || ctx.Err() != nil {
			return
		}
		first := int64(0)
		s := &linematch.Search{Pattern: p, Source: c, StopWhenFull: true, Found: func(line linematch.Line) (bool, error) {
			first = line.Number
			return false, nil
		}}
		if err := s.Run(ctx, readAhead(ctx, c, 0)); err == nil && first > 0 {
			notes = append(notes, fmt.Sprintf(note, first))
		}
	}
	if !q.IgnoreCase {
		try(q.Pattern, true, "the text has different case: with ignore_case=true the first match is in line %d")
	}
	if literal := regexp.QuoteMeta(q.Pattern); literal != q.Pattern {
		try(literal, true, "as literal text, with escaped special characters, the pattern is in line %d")
	}
	return notes
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
