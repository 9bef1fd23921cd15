package grep

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

const (
	defaultMatches = 100
	maxMatches     = 10_000
	lineCost       = 16 // characters that each shown line takes beside its text
	readSize       = 1 << 20
	// reasonTime bounds the searches that explain why nothing matches.
	reasonTime = 2 * time.Second
)

// Query configures an Artifact. Its JSON form is the arguments of the tool.
type Query struct {
	Pattern       string `json:"pattern" jsonschema:"a regular expression in RE2 syntax, matched against each line; escape . * ( ) [ ] to search for these characters"`
	IgnoreCase    bool   `json:"ignore_case,omitempty" jsonschema:"ignore the case of letters"`
	ContextBefore int    `json:"context_before,omitempty" jsonschema:"lines to show before each match, at most 100"`
	ContextAfter  int    `json:"context_after,omitempty" jsonschema:"lines to show after each match, at most 100"`
	MaxResults    int    `json:"max_results,omitempty" jsonschema:"matching lines to show; default 100; all matches are counted"`
	Cursor        string `json:"cursor,omitempty" jsonschema:"where to continue, as an earlier answer gave it"`
}

// Source is the content of an artifact.
type Source interface {
	io.ReaderAt
	Size() int64
	Index() *index.Index
}

// Result is the lines of an artifact that match a pattern.
type Result struct {
	ArtifactID string `json:"artifact_id"`
	Pattern    string `json:"pattern"`
	// Matches is the number of all matches, also of those that Lines does not show.
	// If AtLeast is true, the search ended early and there may be more.
	Matches int64 `json:"matches"`
	AtLeast bool  `json:"at_least,omitempty"`
	// Shown is the number of matching lines in Lines.
	Shown      int          `json:"shown"`
	TotalLines int64        `json:"total_lines"`
	Lines      []ResultLine `json:"lines"`
	// Limited is true if there are more matches than shown. NextCursor is where the search
	// continues: at the first matching line that is not shown, or, if all are shown, where
	// the search was stopped at its timeout.
	Limited    bool   `json:"limited,omitempty"`
	NextCursor string `json:"next_cursor,omitempty"`
	// Searched is the number of bytes searched if the search timed out, otherwise 0.
	// There may be matches after them.
	Searched int64 `json:"searched,omitempty"`
	// Notes say what is missing and how to get it.
	Notes []string `json:"notes,omitempty"`
	// MediaType is set if the artifact is not text; Size is its size in bytes.
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size"`
	// Instead replaces the lines in Text if the artifact is not text.
	Instead string `json:"-"`
	// Counted is the lines as wc, references and lists count them, for Text.
	Counted int64 `json:"counted_lines,omitempty"`

	budget int // characters that may still be shown
}

// ResultLine is a line that matches or is context.
type ResultLine struct {
	Line  int64  `json:"line"`
	Match bool   `json:"match"`
	Text  string `json:"text"`
	// Hits is the number of matches in the line.
	Hits int64 `json:"hits,omitempty"`
	// Offsets are the positions of the first matches in the artifact, in characters, if the
	// line is too long to be shown in full. They are offsets for pages.
	Offsets []int64 `json:"offsets,omitempty"`
	// NextCursor is where the search continues with the first match in the line that Text
	// does not show.
	NextCursor string `json:"next_cursor,omitempty"`
	// Cut is true if Text is not the whole line.
	Cut bool `json:"cut,omitempty"`
}

// Text returns the form for a model.
func (r *Result) Text() string {
	var b strings.Builder
	atLeast := ""
	if r.AtLeast {
		atLeast = "at least "
	}
	fmt.Fprintf(&b, "Found %s%d match(es) for pattern '%s' in knowledge#%s (%d total lines)", atLeast, r.Matches, r.Pattern, r.ArtifactID, cmp.Or(r.Counted, r.TotalLines))
	if r.Instead != "" {
		return b.String() + "\n\n" + r.Instead
	}
	for i, line := range r.Lines {
		switch {
		case i == 0:
			b.WriteString("\n")
		case line.Line > r.Lines[i-1].Line+1:
			b.WriteString("\n--")
		}
		mark := '-'
		if line.Match {
			mark = ':'
		}
		fmt.Fprintf(&b, "\n%d%c %s%s", line.Line, mark, line.Text, line.cutNote())
	}
	for _, note := range r.Notes {
		b.WriteString("\n\n[" + note + "]")
	}
	return b.String()
}

// maxOffsets is how many positions the text of a line lists.
const maxOffsets = 20

// cutNote says where the matches of a line are that is not shown in full.
func (l ResultLine) cutNote() string {
	switch {
	case !l.Cut || !l.Match:
		return ""
	case l.Hits <= 1:
		return fmt.Sprintf(" [cut; the match is at offset %d]", l.Offsets[0])
	}
	listed := min(len(l.Offsets), maxOffsets)
	offsets := strings.Trim(fmt.Sprint(l.Offsets[:listed]), "[]")
	if int(l.Hits) > listed {
		offsets += " ..."
	}
	note := fmt.Sprintf(" [cut; this line has %d matches, at the offsets %s", l.Hits, offsets)
	if l.NextCursor != "" {
		note += fmt.Sprintf("; for those that are not shown, continue with cursor=%q", l.NextCursor)
	}
	return note + "]"
}

// Artifact finds the lines of an artifact that match a pattern, and counts all matches. It
// reads the artifact once in bounded memory, and stops when its context ends at a limit of time
// (limited.TimeUp); the result then has the matches so far, and says so. chars bounds the lines of its text.
func Artifact(ctx context.Context, id string, src Source, q Query, chars int) (*Result, error) {
	if q.ContextBefore < 0 || q.ContextAfter < 0 || q.MaxResults < 0 {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "context_before, context_after and max_results must not be negative")
	}
	q.MaxResults = min(cmp.Or(q.MaxResults, defaultMatches), maxMatches)
	q.ContextBefore, q.ContextAfter = min(q.ContextBefore, MaxContext), min(q.ContextAfter, MaxContext)
	pattern, err := Compile(q.Pattern, q.IgnoreCase)
	if err != nil {
		return nil, err
	}
	var found []Line // one more than to be shown
	s := &Search{Pattern: pattern, Source: src, Found: func(line Line) (bool, error) {
		found = append(found, line)
		return len(found) <= q.MaxResults, nil
	}}
	place, err := cursor.Parse(q.Cursor, src.Size())
	if err != nil {
		return nil, err
	}
	line, err := src.Index().LineAt(src, place.Byte)
	if err != nil {
		return nil, err
	}
	s.From, s.Lines = place.Byte, line-1
	if s.Searched, err = src.Index().LineOffset(src, line); err != nil {
		return nil, err
	}
	err = s.Run(ctx, Parts(ctx, src, s.Searched, readSize))
	reached, timeout := limited.TimeUp(ctx)
	if timeout = timeout && err != nil; err != nil && !timeout {
		return nil, err
	}
	r := &Result{
		ArtifactID: id, Pattern: q.Pattern, Matches: s.Matches, AtLeast: timeout, TotalLines: src.Index().Lines(), Lines: []ResultLine{},
		Size: src.Size(), budget: chars - len(q.Pattern),
	}
	if q.Cursor != "" {
		r.Notes = append(r.Notes, "the search began at the cursor; earlier answers have the matches before it")
	}
	showing := ctx
	if timeout { // what was found is shown all the same
		showing = context.WithoutCancel(ctx)
	}
	if err := r.fill(showing, src, found, q); err != nil {
		return nil, err
	}
	if timeout {
		r.stopped(s, reached)
	} else if r.Matches == 0 {
		r.Notes = append(r.Notes, whyNoMatch(ctx, src, q)...)
	}
	return r, nil
}

// stopped says what a search did not reach before its timeout, and what to do.
func (r *Result) stopped(s *Search, reached limited.Reached) {
	r.Searched = s.Searched
	text := fmt.Sprintf("the search was stopped: %s. Lines %d to %d were not searched completely", reached, s.Lines+1, r.TotalLines)
	if s.Next > s.From && s.Next < r.Size { // else a search from there ends there again
		next := cursor.Place{Byte: s.Next}.String()
		text += fmt.Sprintf("; to search them, continue with cursor=%q", next)
		r.NextCursor = cmp.Or(r.NextCursor, next)
	}
	r.Notes = append(r.Notes, text+"; .* and .+ are slow on long lines, so write .{0,200} instead, or search for fixed text")
}

// fill adds the matches with their context, within the budget.
func (r *Result) fill(ctx context.Context, src Source, found []Line, q Query) error {
	shown := int64(0) // the last line shown
	for i, m := range found {
		chars := MaxShown
		if len(found) <= 3 {
			chars = 4 * MaxShown // few lines may take more
		}
		line, err := matchingLine(src, m, chars)
		if err != nil {
			return err
		}
		cost := utf8.RuneCountInString(line.Text) + len(line.cutNote()) + lineCost
		if i == q.MaxResults || i > 0 && r.budget < cost {
			r.Limited, r.NextCursor = true, cursor.Place{Byte: m.At[0]}.String()
			r.Notes = append(r.Notes, fmt.Sprintf("only the first %d matching line(s) are shown; continue with cursor=%q (line %d), or "+
				"narrow the pattern", i, r.NextCursor, m.Number))
			break
		}
		r.budget -= cost
		if err := r.context(ctx, src, max(m.Number-int64(q.ContextBefore), shown+1), m.Number-1); err != nil {
			return err
		}
		r.Lines = append(r.Lines, line)
		r.Limited = r.Limited || line.NextCursor != ""
		after := min(m.Number+int64(q.ContextAfter), r.TotalLines)
		if next := i + 1; next < len(found) && next < q.MaxResults {
			after = min(after, found[next].Number-1)
		}
		if err := r.context(ctx, src, m.Number+1, after); err != nil {
			return err
		}
		r.Shown, shown = i+1, after
	}
	return nil
}

// matchingLine returns a line that matches. Of a long line it shows the parts around
// the matches.
func matchingLine(src Source, m Line, chars int) (line ResultLine, err error) {
	line = ResultLine{Line: m.Number, Match: true, Hits: m.Hits}
	shown := 1
	if m.Hits == 1 {
		line.Text, line.Cut, err = Show(src, m.Start, m.End, m.At[0])
	} else {
		line.Text, line.Cut, shown, err = ShowAll(src, m, chars)
	}
	if err != nil || !line.Cut {
		return line, err
	}
	if m.Hits > int64(len(m.At)) { // the position after the last of At is unknown
		shown = min(shown, len(m.At)-1)
	}
	if shown < len(m.At) {
		line.NextCursor = cursor.Place{Byte: m.At[shown]}.String()
	}
	for _, at := range m.At {
		char, err := src.Index().CharAt(src, at)
		if err != nil {
			return line, err
		}
		line.Offsets = append(line.Offsets, char)
	}
	return line, nil
}

// context appends the lines from one to another, within the budget.
func (r *Result) context(ctx context.Context, src Source, from, to int64) error {
	for n := from; n <= to && r.budget >= 0; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, end, err := lineBytes(src, n)
		if err != nil || start == src.Size() { // behind the newline that ends the text
			return err
		}
		line := ResultLine{Line: n}
		if line.Text, line.Cut, err = Show(src, start, end, start); err != nil {
			return err
		}
		if r.budget -= utf8.RuneCountInString(line.Text) + lineCost; r.budget < 0 {
			r.Notes = append(r.Notes, "there is more context than shown")
			return nil
		}
		r.Lines = append(r.Lines, line)
	}
	return nil
}

// lineBytes returns where a line begins and ends, without its "\n" or "\r\n".
func lineBytes(src Source, n int64) (start, end int64, err error) {
	if start, err = src.Index().LineOffset(src, n); err != nil {
		return 0, 0, err
	}
	if end, err = src.Index().LineOffset(src, n+1); err != nil {
		return 0, 0, err
	}
	for _, c := range []byte("\n\r") {
		var last [1]byte
		if end == start {
			break
		}
		if _, err := src.ReadAt(last[:], end-1); err != nil && err != io.EOF {
			return 0, 0, err
		}
		if last[0] == c {
			end--
		}
	}
	return start, end, nil
}

var (
	noMinimum   = lazyregexp.New(`\{,\d+\}`)
	asciiClass  = lazyregexp.New(`\\[bBwWdD]`)
	lookForLine = lazyregexp.New(`\\n|\n`)
)

// whyNoMatch returns possible reasons why a pattern does not match.
func whyNoMatch(ctx context.Context, src Source, q Query) (notes []string) {
	ctx, cancel := context.WithTimeout(ctx, reasonTime)
	defer cancel()
	if noMinimum.MatchString(q.Pattern) {
		notes = append(notes, "{,n} is literal text in RE2; write {0,n}")
	}
	if lookForLine.MatchString(q.Pattern) {
		notes = append(notes, "each line is matched separately, so a pattern with a newline never matches; use context_after")
	}
	if asciiClass.MatchString(q.Pattern) && src.Index().TotalChars() < src.Size() {
		notes = append(notes, `\b, \w and \d know only ASCII letters and digits; write [\p{L}\d_] for other letters`)
	}
	if !q.IgnoreCase {
		if found := countOf(ctx, src, q.Pattern); found != "" {
			notes = append(notes, "the text has different case: with ignore_case=true there are "+found)
		}
	}
	if literal := regexp.QuoteMeta(q.Pattern); literal != q.Pattern {
		if found := countOf(ctx, src, literal); found != "" {
			notes = append(notes, "as literal text, with escaped special characters, there are "+found)
		}
	}
	if re2 := Basic(q.Pattern); re2 != q.Pattern {
		if found := countOf(ctx, src, re2); found != "" {
			notes = append(notes, fmt.Sprintf("the syntax is RE2, where \\| is the character |; with %s there are %s", tools.Excerpt(re2, 200), found))
		}
	}
	if note := looksLike(ctx, src, q); note != "" {
		notes = append(notes, note)
	}
	return notes
}

// countOf says how many matches another pattern has in any case, or "" if there are none,
// so that a model needs no second search only to count.
func countOf(ctx context.Context, src Source, expr string) string {
	p, err := Compile(expr, true)
	if err != nil || ctx.Err() != nil {
		return ""
	}
	first, atLeast := int64(0), ""
	s := &Search{Pattern: p, Source: src, Found: func(line Line) (bool, error) {
		first = line.Number
		return false, nil
	}}
	if s.Run(ctx, Parts(ctx, src, 0, readSize)) != nil {
		atLeast = "at least "
	}
	if first == 0 {
		return ""
	}
	return fmt.Sprintf("%s%d match(es), the first in line %d", atLeast, s.Matches, first)
}
