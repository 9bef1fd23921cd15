package offload

import (
	"context"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/offload/linematch"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	defaultMatches = 100
	maxMatches     = 10_000
)

// GrepQuery configures a Grep. Its JSON form is the arguments of the tool.
type GrepQuery struct {
	Pattern       string `json:"pattern" jsonschema:"a regular expression in RE2 syntax, matched against each line; escape . * ( ) [ ] to search for these characters; at most 4096 bytes and 20000 steps, x{100} has 100"`
	IgnoreCase    bool   `json:"ignore_case,omitempty" jsonschema:"ignore the case of letters; default false"`
	ContextBefore int    `json:"context_before,omitempty" jsonschema:"how many lines to show before each match; default 0, at most 100"`
	ContextAfter  int    `json:"context_after,omitempty" jsonschema:"how many lines to show after each match; default 0, at most 100"`
	MaxResults    int    `json:"max_results,omitempty" jsonschema:"how many matching lines to show; default 100"`
}

// GrepResult is the lines of an artifact that match a pattern.
type GrepResult struct {
	ArtifactID string `json:"artifact_id"`
	Pattern    string `json:"pattern"`
	// Matches is the number of matching lines in Lines.
	Matches    int        `json:"matches"`
	TotalLines int64      `json:"total_lines"`
	Lines      []GrepLine `json:"lines"`
	// Limited is true if there are more matches than shown.
	Limited bool `json:"limited,omitempty"`
	// Searched is the number of bytes searched if the search timed out, otherwise 0.
	// There may be matches after them.
	Searched int64 `json:"searched,omitempty"`

	// Notes say what is missing and how to get it.
	Notes []string `json:"notes,omitempty"`

	budget int // characters that may still be shown
}

// GrepLine is a line that matches or is context.
type GrepLine struct {
	Line  int64  `json:"line"`
	Match bool   `json:"match"`
	Text  string `json:"text"`
	// Offset is the position of the match in the artifact, in characters, if the
	// line is too long to be shown in full. It is an offset for GetByID.
	Offset int64 `json:"offset,omitempty"`
	// Cut is true if Text is not the whole line.
	Cut bool `json:"cut,omitempty"`
}

// Text returns the form for a model.
func (g *GrepResult) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Found %d match(es) for pattern '%s' in knowledge#%s (%d total lines)", g.Matches, g.Pattern, g.ArtifactID, g.TotalLines)
	for i, line := range g.Lines {
		switch {
		case i == 0:
			b.WriteString("\n")
		case line.Line > g.Lines[i-1].Line+1:
			b.WriteString("\n--")
		}
		mark := '-'
		if line.Match {
			mark = ':'
		}
		fmt.Fprintf(&b, "\n%d%c %s", line.Line, mark, line.Text)
		if line.Cut && line.Match {
			fmt.Fprintf(&b, " [cut; the match is at offset %d]", line.Offset)
		}
	}
	for _, note := range g.Notes {
		b.WriteString("\n\n[" + note + "]")
	}
	return b.String()
}

// Grep finds the lines of an artifact that match a pattern. It reads the artifact
// once in bounded memory, and stops at the limit or at the timeout; the result says
// which.
func (r *Reader) Grep(ctx context.Context, session, id string, q GrepQuery) (*GrepResult, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	pattern, err := linematch.Compile(q.Pattern, q.IgnoreCase)
	if err != nil {
		return nil, err
	}
	var res *GrepResult
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		limited, cancel := context.WithTimeout(ctx, r.cfg.GrepTime)
		defer cancel()
		s := &lineSearch{c: c, pattern: pattern, limit: q.MaxResults + 1, budget: r.cfg.MaxChars}
		err := s.run(limited)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		timeout := err != nil && limited.Err() != nil
		if err != nil && !timeout {
			return err
		}
		res = &GrepResult{ArtifactID: rec.ID, Pattern: q.Pattern, TotalLines: c.Index().Lines(), Lines: []GrepLine{}}
		if timeout {
			res.Searched = s.searched
			res.Notes = append(res.Notes, fmt.Sprintf("the search was stopped after %s: lines %d to %d were not searched completely; try a simpler pattern", r.cfg.GrepTime, s.line+1, res.TotalLines))
		}
		return res.fill(ctx, c, s, q)
	})
	return res, err
}

// check refuses invalid values and sets defaults.
func (q *GrepQuery) check() error {
	switch {
	case q.ContextBefore < 0 || q.ContextAfter < 0 || q.MaxResults < 0:
		return tools.Errorf(tools.CodeInvalidArguments, "context_before, context_after and max_results must not be negative")
	case q.MaxResults == 0:
		q.MaxResults = defaultMatches
	}
	q.MaxResults = min(q.MaxResults, maxMatches)
	q.ContextBefore = min(q.ContextBefore, linematch.MaxContext)
	q.ContextAfter = min(q.ContextAfter, linematch.MaxContext)
	return nil
}

// fill adds the matches with their context, within the budget.
func (g *GrepResult) fill(ctx context.Context, c blockContent, s *lineSearch, q GrepQuery) error {
	g.budget = s.budget
	shown := int64(0) // the last line shown
	for i, m := range s.found {
		if i == q.MaxResults || i > 0 && g.budget < 0 {
			g.Limited = true
			break
		}
		line := GrepLine{Line: m.line, Match: true}
		var err error
		if line.Text, line.Cut, err = linematch.Show(c, m.start, m.end, m.at); err != nil {
			return err
		}
		if line.Cut {
			if line.Offset, err = c.Index().CharAt(c, m.at); err != nil {
				return err
			}
		}
		g.budget -= len(line.Text) + lineCost
		if err := g.context(ctx, c, max(m.line-int64(q.ContextBefore), shown+1), m.line-1); err != nil {
			return err
		}
		g.Lines = append(g.Lines, line)
		after := min(m.line+int64(q.ContextAfter), g.TotalLines)
		if next := i + 1; next < len(s.found) && next < q.MaxResults {
			after = min(after, s.found[next].line-1)
		}
		if err := g.context(ctx, c, m.line+1, after); err != nil {
			return err
		}
		g.Matches, shown = i+1, after
	}
	switch {
	case g.Limited:
		g.Notes = append(g.Notes, fmt.Sprintf("there are more matches than the %d shown; raise max_results, narrow the pattern, or continue reading from line %d", g.Matches, shown+1))
	case s.used > s.budget && s.searched < c.Size():
		g.Limited = true
		g.Notes = append(g.Notes, fmt.Sprintf("the search ended at line %d, because no more lines can be shown; narrow the pattern", s.line))
	}
	return nil
}

// context appends the lines from one to another, within the budget.
func (g *GrepResult) context(ctx context.Context, c blockContent, from, to int64) error {
	for n := from; n <= to && g.budget >= 0; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, err := c.Index().LineOffset(c, n)
		if err != nil {
			return err
		}
		end := c.Size()
		if n < g.TotalLines {
			if end, err = c.Index().LineOffset(c, n+1); err != nil {
				return err
			}
			end-- // the newline
		}
		line := GrepLine{Line: n}
		if line.Text, line.Cut, err = linematch.Show(c, start, end, start); err != nil {
			return err
		}
		g.Lines = append(g.Lines, line)
		if g.budget -= len(line.Text) + lineCost; g.budget < 0 {
			g.Notes = append(g.Notes, "there is more context than shown")
		}
	}
	return nil
}
