package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Read reads a page of an artifact for resources/read. The first content is exactly
// the bytes of the page. If it is not the last page, a second content says in words
// how to read the next one, and has the URI of that page.
func Read(ctx context.Context, r *offload.Reader, session string, a Address) ([]*mcp.ResourceContents, error) {
	if tools.TokenOf(session) != a.Session {
		return nil, tools.Errorf(tools.CodeNotFound, "the artifact belongs to another session")
	}
	rec, err := r.Record(ctx, session, a.ID)
	if err != nil {
		return nil, err
	}
	if rec.Type == offload.TypeBinary {
		return readBinary(ctx, r, rec, a)
	}
	page, err := r.GetByID(ctx, session, a.ID, a.Offset, a.Limit)
	if err != nil {
		return nil, err
	}
	return Text(a, rec.Artifact, page), nil
}

// Text returns the contents of a page of text.
func Text(a Address, artifact tools.Artifact, page *offload.Page) []*mcp.ResourceContents {
	first := &mcp.ResourceContents{URI: a.page(a.Offset), MIMEType: mediaType(artifact), Text: page.Content}
	if a.Offset == 0 && a.Limit == 0 {
		first.URI = URI(a.Session, a.ID)
	}
	return withNext(a, first, page.Offset+page.Chars, page.TotalChars, "characters")
}

func withNext(a Address, first *mcp.ResourceContents, end, total int64, unit string) []*mcp.ResourceContents {
	first.Meta = mcp.Meta{"stevedore/total": total, "stevedore/unit": unit}
	if end >= total {
		return []*mcp.ResourceContents{first}
	}
	next := a.page(end)
	first.Meta["stevedore/next"] = next
	note := fmt.Sprintf("[This page is %s %d to %d of %d. The next page is %s]", unit, a.Offset, end-1, total, next)
	return []*mcp.ResourceContents{first, {URI: next, MIMEType: "text/plain", Text: note}}
}

// readBinary returns bytes offset to offset+limit.
func readBinary(ctx context.Context, r *offload.Reader, rec offload.Record, a Address) ([]*mcp.ResourceContents, error) {
	if a.Offset > rec.Size {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "offset %d is outside of the artifact, which has %d bytes", a.Offset, rec.Size)
	}
	_, content, err := r.Open(ctx, rec.Session, rec.ID)
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(cmp.Or(a.Limit, offload.PageChars), rec.Size-a.Offset))
	n, err := content.ReadAt(data, a.Offset)
	if n == len(data) || errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, content.Close()); err != nil {
		return nil, err
	}
	first := &mcp.ResourceContents{URI: a.page(a.Offset), MIMEType: mediaType(rec.Artifact), Blob: data[:n]}
	return withNext(a, first, a.Offset+int64(n), rec.Size, "bytes"), nil
}
