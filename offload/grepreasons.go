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

// whyNoMatch returns possible reasons why a pattern does not match, with that of the line
// ends if cr is true.
func (r *Reader) whyNoMatch(ctx context.Context, c blockContent, q GrepQuery, cr bool) (notes []string) {
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
	if cr && bytes.Contains(head, []byte("\r\n")) && strings.Contains(q.Pattern, "$") {
		notes = append(notes, `the lines end in \r\n, and $ matches only after the \r; write \r?$`)
	}
	if asciiClass.MatchString(q.Pattern) && !isASCII(head) {
		notes = append(notes, `\b, \w and \d know only ASCII letters and digits; write [\p{L}\d_] for other letters`)
	}
	if !q.IgnoreCase {
		if found := countOf(ctx, c, q.Pattern, true); found != "" {
			notes = append(notes, "the text has different case: with ignore_case=true there are "+found)
		}
	}
	if literal := regexp.QuoteMeta(q.Pattern); literal != q.Pattern {
		if found := countOf(ctx, c, literal, true); found != "" {
			notes = append(notes, "as literal text, with escaped special characters, there are "+found)
		}
	}
	return notes
}

// countOf says how many matches another pattern has, or "" if there are none, so that a
// model needs no second search only to count.
func countOf(ctx context.Context, c blockContent, expr string, fold bool) string {
	p, err := linematch.Compile(expr, fold)
	if err != nil || ctx.Err() != nil {
		return ""
	}
	first := int64(0)
	s := &linematch.Search{Pattern: p, Source: c, Found: func(line linematch.Line) (bool, error) {
		first = line.Number
		return false, nil
	}}
	err = s.Run(ctx, readAhead(ctx, c, 0))
	switch {
	case first == 0:
		return ""
	case err != nil:
		return fmt.Sprintf("at least %d match(es), the first in line %d", s.Matches, first)
	}
	return fmt.Sprintf("%d match(es), the first in line %d", s.Matches, first)
}

// maxCRLines bounds the lines that missedBeforeCR compares.
const maxCRLines = 10_000

// missedBeforeCR returns a note if a line does not match only because it ends in "\r\n" and
// the pattern has a $. A "\r" is a character of its line, also for $.
func (r *Reader) missedBeforeCR(ctx context.Context, c blockContent, pattern *linematch.Pattern, q GrepQuery, matches int64) []string {
	expr := linematch.BeforeCR(q.Pattern, q.IgnoreCase)
	if expr == "" {
		return nil
	}
	p, err := linematch.Compile(expr, false) // the expression has its flags
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(reasonTime, r.cfg.GrepTime))
	defer cancel()
	lines, missed := 0, int64(0)
	s := &linematch.Search{Pattern: p, Source: c, StopWhenFull: true, Found: func(line linematch.Line) (bool, error) {
		if lines++; lines > maxCRLines || line.End-line.Start > 1<<20 {
			return false, nil
		}
		text, err := readRange(c, line.Start, line.End-line.Start)
		if err != nil {
			return false, err
		}
		err = pattern.All(ctx, text, 0, func(int, int) bool {
			text = nil
			return false
		})
		if err == nil && text != nil {
			missed = line.Number
		}
		return missed == 0, err
	}}
	if q.Offset != 0 && continueAt(c, s, q.Offset) != nil {
		return nil
	}
	if err := s.Run(ctx, readAhead(ctx, c, s.Searched)); err != nil || missed == 0 {
		return nil
	}
	if matches == 0 && q.Offset == 0 {
		if found := countOf(ctx, c, expr, false); found != "" {
			return []string{fmt.Sprintf(`the lines end in \r\n, and $ matches only after the \r: with \r?$ instead of $ there are %s`, found)}
		}
	}
	return []string{fmt.Sprintf(`line %d and perhaps others end in \r\n and do not match only because $ matches after the \r; write \r?$ instead of $`, missed)}
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
