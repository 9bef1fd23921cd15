package offload

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/offload/internal/textscan"
	"github.com/stevedore-bus/stevedore/tools"
)

// Page is a part of an artifact. Its numbers are in characters.
type Page struct {
	ArtifactID string `json:"artifact_id"`
	// Offset is the first character of the page, from 0. The page has Chars
	// characters, the artifact TotalChars.
	Offset     int64 `json:"offset"`
	Chars      int64 `json:"chars"`
	TotalChars int64 `json:"total_chars"`
	// NextOffset is where the next page starts; 0 on the last page.
	NextOffset int64 `json:"next_offset,omitempty"`
	// Content is the text. U+FFFD replaces each byte that is not UTF-8.
	Content string `json:"content"`
	// Data is the exact bytes if they are not UTF-8.
	Data []byte `json:"data,omitempty"`
	// Notes say at the end what the artifact lacks.
	Notes []string `json:"notes,omitempty"`
	// MediaType is set if the artifact is not text.
	MediaType string `json:"media_type,omitempty"`
	// Size is the size of the artifact, in bytes.
	Size int64 `json:"size"`
}

// Bytes returns the exact bytes of the page.
func (p *Page) Bytes() []byte {
	if p.Data != nil {
		return p.Data
	}
	return []byte(p.Content)
}

// Text returns the form for a model: the content. If it is not the whole artifact, a
// line above it gives the position and how to continue.
func (p *Page) Text() string {
	text := tools.EscapeBytes(string(p.Bytes()))
	for _, note := range p.Notes {
		text += "\n\n[" + note + "]"
	}
	switch {
	case p.MediaType != "":
		return binaryNotice(p.ArtifactID, p.MediaType, p.Size)
	case p.NextOffset > 0:
		return fmt.Sprintf("Characters %d-%d of %d (knowledge_id: %s); the next page has offset=%d:\n\n%s",
			p.Offset, p.NextOffset-1, p.TotalChars, p.ArtifactID, p.NextOffset, text)
	case p.TotalChars == 0:
		return fmt.Sprintf("The artifact is empty (knowledge_id: %s).", p.ArtifactID)
	case p.Offset > 0:
		return fmt.Sprintf("Characters %d-%d of %d (knowledge_id: %s); this is the end:\n\n%s",
			p.Offset, p.TotalChars-1, p.TotalChars, p.ArtifactID, text)
	}
	return text
}

// GetByID returns a page of an artifact: limit characters from offset on. A
// limit of 0, or one above MaxChars or PageChars, is the smaller of the two.
func (r *Reader) GetByID(ctx context.Context, session, id string, offset, limit int64) (*Page, error) {
	return r.page(ctx, session, id, offset, limit, min(PageChars, int64(r.cfg.MaxChars)), true)
}

// Read is GetByID for programs, which read larger pages than models, and the exact bytes of
// any text: limit is at most ReadChars.
func (r *Reader) Read(ctx context.Context, session, id string, offset, limit int64) (*Page, error) {
	return r.page(ctx, session, id, offset, limit, ReadChars, false)
}

func (r *Reader) page(ctx context.Context, session, id string, offset, limit, maxLimit int64, forModel bool) (*Page, error) {
	if limit < 0 {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "limit %d is negative; give 1 to %d", limit, maxLimit)
	}
	if limit == 0 || limit > maxLimit {
		limit = maxLimit
	}
	var page *Page
	defer countRead("page", time.Now())
	open := r.withBytes
	if forModel {
		open = r.with
	}
	err := open(ctx, session, id, func(rec Record, c blockContent) (err error) {
		page, err = readPage(rec, c, offset, limit, maxLimit, forModel)
		return err
	})
	return page, err
}

// readPage returns a page. If it is for a model, its Text is bounded too, in which a byte
// that is not UTF-8 takes four characters.
func readPage(rec Record, c blockContent, offset, limit, maxLimit int64, forModel bool) (*Page, error) {
	index := c.Index()
	total := index.TotalChars()
	if offset < 0 || offset >= total && offset > 0 {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "offset %d is outside of the artifact %q; valid offsets are 0 to %d", offset, rec.ID, max(total-1, 0))
	}
	start, err := index.CharOffset(c, offset)
	if err != nil {
		return nil, err
	}
	page := &Page{ArtifactID: rec.ID, Offset: offset, TotalChars: total, Chars: min(limit, total-offset), MediaType: rec.binary(), Size: c.Size()}
	end, err := index.CharOffset(c, offset+page.Chars)
	if err != nil {
		return nil, err
	}
	data, err := readRange(c, start, end-start)
	if err != nil {
		return nil, err
	}
	if cut := shownLen(data, int(maxLimit)); forModel && page.MediaType == "" && cut < len(data) {
		data = data[:cut]
		page.Chars = textscan.CountRunes(data)
	}
	if offset+page.Chars < total {
		page.NextOffset = offset + page.Chars
	} else {
		page.Notes = rec.Lost()
	}
	page.Content, page.Data = textAndData(data)
	return page, nil
}

// textAndData returns data as valid UTF-8, and data itself if it differs from that.
func textAndData(data []byte) (string, []byte) {
	if utf8.Valid(data) {
		return string(data), nil
	}
	return string([]rune(string(data))), data // U+FFFD for each invalid byte
}

// shownLen returns how many bytes of data can be shown with at most max characters. A byte
// that is not UTF-8 is shown as \xNN.
func shownLen(data []byte, max int) int {
	if utf8.Valid(data) {
		return textscan.RunesLen(data, int64(max))
	}
	end := 0
	for end < len(data) {
		r, size := utf8.DecodeRune(data[end:])
		max--
		if r == utf8.RuneError && size == 1 {
			max -= 3
		}
		if max < 0 {
			break
		}
		end += size
	}
	return end
}
