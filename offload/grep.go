package offload

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/offload/linematch"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	defaultMatches = 100
	maxMatches     = 10_000
)

// GrepQuery configures a Grep. Its JSON form is the arguments of the tool.
type GrepQuery struct {
	Pattern       string `json:"pattern" jsonschema:"a regular expression in RE2 syntax, matched against each line; escape . * ( ) [ ] to search for these characters"`
	IgnoreCase    bool   `json:"ignore_case,omitempty" jsonschema:"ignore the case of letters"`
	ContextBefore int    `json:"context_before,omitempty" jsonschema:"lines to show before each match, at most 100"`
	ContextAfter  int    `json:"context_after,omitempty" jsonschema:"lines to show after each match, at most 100"`
	MaxResults    int    `json:"max_results,omitempty" jsonschema:"matching lines to show; default 100; all matches are counted"`
	Offset        int64  `json:"offset,omitempty" jsonschema:"search from this character on, to continue an answer"`
}

// GrepResult is the lines of an artifact that match a pattern.
type GrepResult struct {
	ArtifactID string `json:"artifact_id"`
	Pattern    string `json:"pattern"`
	// Matches is the number of all matches, also of those that Lines does not show.
	// If AtLeast is true, the search ended early and there may be more.
	Matches int64 `json:"matches"`
	AtLeast bool  `json:"at_least,omitempty"`
	// Shown is the number of matching lines in Lines.
	Shown      int        `json:"shown"`
	TotalLines int64      `json:"total_lines"`
	Lines      []GrepLine `json:"lines"`
	// Limited is true if there are more matches than shown. The search continues with the
	// offset NextOffset: at the first match that is not shown, or, if all are shown, where
	// the search was stopped at its timeout.
	Limited    bool  `json:"limited,omitempty"`
	NextOffset int64 `json:"next_offset,omitempty"`
	// Searched is the number of bytes searched if the search timed out, otherwise 0.
	// There may be matches after them.
	Searched int64 `json:"searched,omitempty"`
	// Notes say what is missing and how to get it.
	Notes []string `json:"notes,omitempty"`
	// MediaType is set if the artifact is not text; Size is its size in bytes.
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size"`

	budget int // characters that may still be shown
}

// GrepLine is a line that matches or is context.
type GrepLine struct {
	Line  int64  `json:"line"`
	Match bool   `json:"match"`
	Text  string `json:"text"`
	// Hits is the number of matches in the line.
	Hits int64 `json:"hits,omitempty"`
	// Offset is the position of the first match in the artifact, in characters, if the
	// line is too long to be shown in full. It is an offset for GetByID. Offsets has
	// the positions of the first matches if there are several.
	Offset  int64   `json:"offset,omitempty"`
	Offsets []int64 `json:"offsets,omitempty"`
	// NextOffset is the first match in the line that Text does not show, or 0.
	NextOffset int64 `json:"next_offset,omitempty"`
	// Cut is true if Text is not the whole line.
	Cut bool `json:"cut,omitempty"`
}

// Text returns the form for a model.
func (g *GrepResult) Text() string {
	var b strings.Builder
	atLeast := ""
	if g.AtLeast {
		atLeast = "at least "
	}
	fmt.Fprintf(&b, "Found %s%d match(es) for pattern '%s' in knowledge#%s (%d total lines)", atLeast, g.Matches, g.Pattern, g.ArtifactID, g.TotalLines)
	if g.MediaType != "" {
		return b.String() + "\n\n" + binaryNotice(g.ArtifactID, g.MediaType, g.Size)
	}
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
		fmt.Fprintf(&b, "\n%d%c %s%s", line.Line, mark, line.Text, line.cutNote())
	}
	for _, note := range g.Notes {
		b.WriteString("\n\n[" + note + "]")
	}
	return b.String()
}

// cutNote says where the matches of a line are that is not shown in full.
func (l GrepLine) cutNote() string {
	switch {
	case !l.Cut || !l.Match:
		return ""
	case l.Hits <= 1:
		return fmt.Sprintf(" [cut; the match is at offset %d]", l.Offset)
	}
	var b strings.Builder
	fmt.Fprintf(&b, " [cut; this line has %d matches, at the offsets", l.Hits)
	for i, at := range l.Offsets {
		if i == maxOffsets {
			break
		}
		fmt.Fprintf(&b, " %d", at)
	}
	if int(l.Hits) > min(len(l.Offsets), maxOffsets) {
		b.WriteString(" ...")
	}
	if l.NextOffset > 0 {
		fmt.Fprintf(&b, "; the first one that is not shown is at offset=%d", l.NextOffset)
	}
	return b.String() + "]"
}

// maxOffsets is how many positions the text of a line lists.
const maxOffsets = 20

// Grep finds the lines of an artifact that match a pattern, and counts all matches. It
// reads the artifact once in bounded memory, and stops at the timeout; the result then
// says so.
func (r *Reader) Grep(ctx context.Context, session, id string, q GrepQuery) (*GrepResult, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	pattern, err := linematch.Compile(q.Pattern, q.IgnoreCase)
	if err != nil {
		return nil, err
	}
	var res *GrepResult
	defer countRead("grep", time.Now())
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		limited, cancel := context.WithTimeout(ctx, r.cfg.GrepTime)
		defer cancel()
		s, found, err := search(limited, c, pattern, q)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		timeout := err != nil && s != nil && limited.Err() != nil
		if err != nil && !timeout {
			return readError(id, err)
		}
		total := c.Index().Lines()
		res = &GrepResult{
			ArtifactID: rec.ID, Pattern: q.Pattern, Matches: s.Matches, AtLeast: timeout, TotalLines: total, Lines: []GrepLine{},
			MediaType: rec.binary(), Size: c.Size(),
			budget: r.cfg.MaxChars - len(q.Pattern) - noteReserve,
		}
		if timeout {
			res.Searched = s.Searched
			next := int64(0)
			if s.Next > s.From && s.Next < c.Size() { // else a search from there ends there again
				if next, err = c.Index().CharAt(c, s.Next); err != nil {
					return err
				}
			}
			res.Notes = append(res.Notes, stoppedNote(s, r.cfg.GrepTime, total, c.Size(), q.Pattern, next))
			if err := res.fill(ctx, c, found, q); err != nil {
				return err
			}
			if res.NextOffset == 0 {
				res.NextOffset = next
			}
			return nil
		}
		if err := res.fill(ctx, c, found, q); err != nil {
			return err
		}
		missed := r.missedBeforeCR(ctx, c, pattern, q, res.Matches)
		res.Notes = append(res.Notes, missed...)
		if res.Matches == 0 {
			res.Notes = append(res.Notes, r.whyNoMatch(ctx, c, q, missed == nil)...)
		}
		return nil
	})
	return res, err
}

// stoppedNote says what a search did not reach before its timeout, and what to do: with an
// offset other than 0, another search continues there.
func stoppedNote(s *linematch.Search, after time.Duration, lines, size int64, pattern string, next int64) string {
	text := fmt.Sprintf("the search was stopped after %s: lines %d to %d were not searched completely", after, s.Lines+1, lines)
	if s.Read > 0 {
		text += fmt.Sprintf("; of the long line %d, it read the bytes %d to %d of %d in all", s.Lines+1, s.Searched, s.Read, size)
	}
	if next > 0 {
		text += fmt.Sprintf("; to search them, continue with offset=%d", next)
	}
	if strings.Contains(pattern, ".*") || strings.Contains(pattern, ".+") {
		return text + "; .* and .+ are slow on long lines, so write .{0,200} instead, or search for fixed text"
	}
	return text + "; try a simpler pattern, or fixed text"
}

// search returns the first matching lines, one more than q asks for. s is nil if q has a
// wrong offset.
func search(ctx context.Context, c blockContent, pattern *linematch.Pattern, q GrepQuery) (s *linematch.Search, found []linematch.Line, err error) {
	s = &linematch.Search{Pattern: pattern, Source: c, Found: func(line linematch.Line) (bool, error) {
		found = append(found, line)
		return len(found) <= q.MaxResults, nil
	}}
	if q.Offset != 0 {
		if err := continueAt(c, s, q.Offset); err != nil {
			return nil, nil, err
		}
	}
	err = s.Run(ctx, readAhead(ctx, c, s.Searched))
	return s, found, err
}

// continueAt makes a search begin at a character.
func continueAt(c blockContent, s *linematch.Search, char int64) (err error) {
	x := c.Index()
	if char < 0 {
		char += x.TotalChars()
	}
	if char < 0 || char > x.TotalChars() {
		return tools.Errorf(tools.CodeInvalidArguments, "offset %d is outside of the artifact; it has %d characters", char, x.TotalChars())
	}
	if s.From, err = x.CharOffset(c, char); err != nil {
		return err
	}
	line, err := x.LineAt(c, s.From)
	if err != nil {
		return err
	}
	s.Lines = line - 1
	s.Searched, err = x.LineOffset(c, line)
	return err
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
