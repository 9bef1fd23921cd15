package offload

import (
	"bytes"
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/index"
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
	// NextLine is the first requested line that is not returned because of the
	// limit; 0 if all are returned.
	NextLine int64 `json:"next_line,omitempty"`
	// NextOffset, in characters, is where EndLine continues if even the first line
	// is too long; otherwise 0. It is an offset for GetByID.
	NextOffset int64 `json:"next_offset,omitempty"`
	// Content is the lines without the last newline. U+FFFD replaces each byte that
	// is not UTF-8.
	Content string `json:"content"`
	// Data is the exact bytes if they are not UTF-8.
	Data []byte `json:"data,omitempty"`
	// MediaType is set if the artifact is not text; Size is its size in bytes.
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size"`
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
	text := fmt.Sprintf("Lines %d-%d of %d (knowledge_id: %s):\n\n%s", l.StartLine, l.EndLine, l.TotalLines, l.ArtifactID, tools.EscapeBytes(string(l.Bytes())))
	if l.NextOffset > 0 {
		text += fmt.Sprintf("\n\n[line %d is too long to be shown in full; continue with %s(artifact_id, offset=%d)]", l.EndLine, ToolGet, l.NextOffset)
	}
	if l.NextLine > 0 {
		text += fmt.Sprintf("\n\n[not all lines are shown; continue with start_line=%d]", l.NextLine)
	}
	return text
}

// GetByLines returns the lines start to end, from 1 and inclusive. An end of 0 or after
// the last line means the last line. Negative lines count from the end: -1 is the last
// line.
func (r *Reader) GetByLines(ctx context.Context, session, id string, start, end int64) (*Lines, error) {
	var lines *Lines
	defer countRead("lines", time.Now())
	err := r.with(ctx, session, id, func(rec Record, c blockContent) (err error) {
		lines, err = readLines(ctx, rec, c, start, end, r.cfg.MaxChars)
		return err
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}

func readLines(ctx context.Context, rec Record, c blockContent, start, end int64, maxChars int) (*Lines, error) {
	index := c.Index()
	total := index.Lines()
	start, end = fromEnd(start, total), fromEnd(end, total)
	if end == 0 {
		end = total
	}
	switch {
	case start < 1 || start > total:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "start_line %d is outside of the artifact %q; valid lines are 1 to %d", start, rec.ID, total)
	case end < start:
		return nil, tools.Errorf(tools.CodeInvalidArguments, "end_line %d is before start_line %d; valid values are %d to %d", end, start, start, total)
	}
	lines := &Lines{ArtifactID: rec.ID, StartLine: start, EndLine: min(end, total), TotalLines: total, MediaType: rec.binary(), Size: c.Size()}
	from, err := index.LineOffset(c, start)
	if err != nil {
		return nil, err
	}
	data, complete, err := readUntilNewline(ctx, c, from, lines.EndLine-start+1, maxChars*utf8.UTFMax)
	if err != nil {
		return nil, err
	}
	if cut := shownLen(data, maxChars); cut < len(data) || !complete {
		data = data[:cut]
		if err := lines.cut(c, from, &data); err != nil {
			return nil, err
		}
	}
	lines.Content, lines.Data = textAndData(data)
	return lines, nil
}

// fromEnd returns the line that a negative number means. Before the first line, it
// returns the number.
func fromEnd(line, total int64) int64 {
	if line < 0 && -line <= total {
		return total + 1 + line
	}
	return line
}

// cut shortens data, which starts at byte from, to whole lines, if it has any, and sets
// the end of l accordingly.
func (l *Lines) cut(c blockContent, from int64, data *[]byte) error {
	want := l.EndLine
	last := bytes.LastIndexByte(*data, '\n')
	if last < 0 {
		next, err := c.Index().CharAt(c, from+int64(len(*data)))
		if err != nil {
			return err
		}
		l.NextOffset, l.EndLine = next, l.StartLine
	} else {
		*data = (*data)[:last]
		l.EndLine = l.StartLine + textscan.CountNewlines(*data)
	}
	if l.EndLine < want {
		l.NextLine = l.EndLine + 1
	}
	return nil
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
