package offload

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/cursor"
	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
	"github.com/stevedore-bus/stevedore/tools"
)

// Lines is a range of lines of an artifact. Lines are the result of splitting at
// "\n": a text that ends with "\n" has an empty last line, and a "\r" before it
// belongs to the line.
type Lines struct {
	ArtifactID string `json:"artifact_id"`
	// StartLine and EndLine are the first and the last line returned, from 1.
	StartLine  int64 `json:"start_line"`
	EndLine    int64 `json:"end_line"`
	TotalLines int64 `json:"total_lines"`
	// NextCursor is where the requested lines continue that are not returned because of
	// the limit; empty if all are returned. It may be in the middle of a long line.
	NextCursor string `json:"next_cursor,omitempty"`
	// Content is the lines without the last newline. U+FFFD replaces each byte that
	// is not UTF-8.
	Content string `json:"content"`
	// Data is the exact bytes if they are not UTF-8.
	Data []byte `json:"data,omitempty"`
	// Notes say at the end what the artifact lacks.
	Notes []string `json:"notes,omitempty"`
	// MediaType is set if the artifact is not text; Size is its size in bytes.
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size"`

	// Counted is the lines as wc, references and lists count them, for Text.
	Counted int64 `json:"counted_lines,omitempty"`
}

// Bytes returns the exact bytes of the lines.
func (l *Lines) Bytes() []byte {
	if l.Data != nil {
		return l.Data
	}
	return []byte(l.Content)
}

// Text returns the form for a model.
func (l *Lines) Text() string {
	if l.MediaType != "" {
		return binaryNotice(l.ArtifactID, l.MediaType, l.Size)
	}
	end, total := l.EndLine, cmp.Or(l.Counted, l.TotalLines)
	if l.StartLine > total { // the empty line behind the last newline
		total = l.TotalLines
	}
	end = min(end, total)
	text := fmt.Sprintf("Lines %d-%d of %d (knowledge_id: %s):\n\n%s", l.StartLine, end, total, l.ArtifactID, tools.EscapeBytes(string(l.Bytes())))
	if l.NextCursor != "" {
		text += fmt.Sprintf("\n\n[not all is shown; continue with cursor=%q]", l.NextCursor)
	}
	for _, note := range l.Notes {
		text += "\n\n[" + note + "]"
	}
	return text
}

// LinesQuery selects lines of an artifact. Its JSON form is the arguments of the tool.
type LinesQuery struct {
	// StartLine and EndLine are the first and the last line, from 1. An EndLine of 0 or after
	// the last line means the last line. Negative lines count from the end: -1 is the last,
	// and -20 the first of the last 20, or of all if there are fewer.
	StartLine int64 `json:"start_line,omitempty" jsonschema:"the first line to read, counted from 1; -20 means the last 20"`
	EndLine   int64 `json:"end_line,omitempty" jsonschema:"the last line to read; default the end, as far as it fits"`
	// Cursor continues an earlier answer; the lines are not given then.
	Cursor string `json:"cursor,omitempty" jsonschema:"where to continue, as an earlier answer gave it; omit the lines then"`
}

// GetByLines returns lines of an artifact.
func (r *Reader) GetByLines(ctx context.Context, session, id string, q LinesQuery) (lines *Lines, err error) {
	defer countRead("lines", time.Now())
	err = r.with(ctx, session, id, func(rec Record, c blockContent) error {
		lines, err = readLines(ctx, rec, c, q, r.cfg.MaxChars)
		return err
	})
	return lines, err
}

func readLines(ctx context.Context, rec Record, c blockContent, q LinesQuery, maxChars int) (*Lines, error) {
	index := c.Index()
	total := index.Lines()
	start, end, last := q.StartLine, q.EndLine, max(rec.Lines, 1)
	if start < 0 {
		start, end = max(last+1+start, 1), cmp.Or(end, -1)
	}
	if end < 0 && -end <= last {
		end += last + 1
	}
	place, err := cursor.Parse(q.Cursor, c.Size())
	if err != nil {
		return nil, err
	}
	if q.Cursor != "" {
		if start, err = index.LineAt(c, place.Byte); err != nil {
			return nil, err
		}
		end = place.More
	}
	end = cmp.Or(end, total)
	switch {
	case start < 1 || start > total:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "start_line %d is outside of the artifact %q; valid lines are 1 to %d", start, rec.ID, total)
	case end < start:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "end_line %d is before start_line %d; valid values are %d to %d", end, start, start, total)
	}
	lines := &Lines{ArtifactID: rec.ID, StartLine: start, EndLine: min(end, total), TotalLines: total, Counted: rec.Lines, MediaType: rec.binary(), Size: c.Size()}
	from, err := index.LineOffset(c, start)
	if err != nil {
		return nil, err
	}
	from = max(from, place.Byte)
	data, complete, err := readUntilNewline(ctx, c, from, lines.EndLine-start+1, maxChars*utf8.UTFMax)
	if err != nil {
		return nil, err
	}
	if cut := shownLen(data, maxChars); cut < len(data) || !complete {
		next := cursor.Place{Byte: from + int64(cut), More: lines.EndLine}
		data = data[:cut]
		if last := bytes.LastIndexByte(data, '\n'); last >= 0 { // whole lines only
			data = data[:last]
			next.Byte = from + int64(last) + 1
		}
		lines.EndLine = start + textscan.CountNewlines(data)
		lines.NextCursor = next.String()
	}
	if lines.NextCursor == "" && lines.EndLine >= rec.Lines {
		lines.Notes = rec.Lost()
	}
	lines.Content, lines.Data = textAndData(data)
	return lines, nil
}

// countLines returns the number of lines of a text as people and wc count them: a newline ends
// its line. Split at "\n", as get_knowledge_by_lines has to, the text has one more.
func countLines(c Content) (int64, error) {
	lines := c.Index().Lines()
	if c.Size() == 0 {
		return 0, nil
	}
	last, err := readRange(c, c.Size()-1, 1)
	if err == nil && last[0] == '\n' {
		lines--
	}
	return lines, err
}

// readUntilNewline reads from an offset up to the nth newline or the end, but at
// most limit bytes. If it stops at the limit, complete is false.
func readUntilNewline(ctx context.Context, c blockContent, from, nth int64, limit int) (data []byte, complete bool, err error) {
	for off := from; off < c.Size(); {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		block, err := c.Block(int(off / index.BlockSize))
		if err != nil {
			return nil, false, err
		}
		part := block[off%index.BlockSize:]
		if n := textscan.CountNewlines(part); n >= nth {
			part, nth = part[:textscan.NthNewline(part, nth)], 0
		} else {
			nth -= n
		}
		if data = append(data, part...); len(data) > limit {
			return data[:limit], false, nil
		}
		if nth == 0 {
			break
		}
		off += int64(len(part))
	}
	return data, true, nil
}
