package offload

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/linematch"
)

const (
	lineCost    = 16   // characters that each shown line takes beside its text
	noteReserve = 1000 // characters for the first line and the notes
)

// fill adds the matches with their context, within the budget.
func (g *GrepResult) fill(ctx context.Context, c blockContent, found []linematch.Line, q GrepQuery) error {
	shown := int64(0) // the last line shown
	for i, m := range found {
		chars := linematch.MaxShown
		if len(found) <= 3 {
			chars = 4 * linematch.MaxShown // few lines may take more
		}
		line, err := g.matchingLine(c, m, chars)
		if err != nil {
			return err
		}
		cost := utf8.RuneCountInString(line.Text) + len(line.cutNote()) + lineCost
		if i == q.MaxResults || i > 0 && g.budget < cost {
			g.Limited = true
			if g.NextOffset, err = c.Index().CharAt(c, m.At[0]); err != nil {
				return err
			}
			g.Notes = append(g.Notes, fmt.Sprintf("only the first %d matching line(s) are shown; continue with offset=%d (line %d), or narrow the pattern", i, g.NextOffset, m.Number))
			break
		}
		g.budget -= cost
		if err := g.context(ctx, c, max(m.Number-int64(q.ContextBefore), shown+1), m.Number-1); err != nil {
			return err
		}
		g.Lines = append(g.Lines, line)
		if line.NextOffset > 0 && g.NextOffset == 0 {
			g.Limited = true
		}
		after := min(m.Number+int64(q.ContextAfter), g.TotalLines)
		if next := i + 1; next < len(found) && next < q.MaxResults {
			after = min(after, found[next].Number-1)
		}
		if err := g.context(ctx, c, m.Number+1, after); err != nil {
			return err
		}
		g.Shown, shown = i+1, after
	}
	return nil
}

// matchingLine returns a line that matches. Of a long line it shows the parts around
// the matches.
func (g *GrepResult) matchingLine(c blockContent, m linematch.Line, chars int) (line GrepLine, err error) {
	line = GrepLine{Line: m.Number, Match: true, Hits: m.Hits}
	shown := 1
	if m.Hits == 1 {
		line.Text, line.Cut, err = linematch.Show(c, m.Start, m.End, m.At[0])
	} else {
		line.Text, line.Cut, shown, err = linematch.ShowAll(c, m, chars)
	}
	if err != nil || !line.Cut {
		return line, err
	}
	if m.Hits > int64(len(m.At)) { // the position after the last of At is unknown
		shown = min(shown, len(m.At)-1)
	}
	for i, at := range m.At {
		char, err := c.Index().CharAt(c, at)
		if err != nil {
			return line, err
		}
		if i == 0 {
			line.Offset = char
		}
		if i == shown {
			line.NextOffset = char
		}
		if m.Hits > 1 {
			line.Offsets = append(line.Offsets, char)
		}
	}
	return line, nil
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
		if g.budget -= utf8.RuneCountInString(line.Text) + lineCost; g.budget < 0 {
			g.Notes = append(g.Notes, "there is more context than shown")
			return nil
		}
		g.Lines = append(g.Lines, line)
	}
	return nil
}
