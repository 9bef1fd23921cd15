package artifacts

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Read reads a page of an artifact for resources/read.
func Read(ctx context.Context, r *offload.Reader, session string, a Address) ([]*mcp.ResourceContents, error) {
	if tools.TokenOf(session) != a.Session {
		return nil, tools.Errorf(tools.CodeNotFound, "the artifact belongs to another session")
	}
	rec, err := r.Record(ctx, session, a.ID)
	if err != nil {
		return nil, err
	}
	page, err := r.GetByID(ctx, session, a.ID, a.Offset, a.Limit)
	if err != nil {
		return nil, err
	}
	return Contents(a, rec.Artifact, page), nil
}

// Contents returns a page of an artifact for resources/read. The first content is exactly the page: its text, or
// its bytes if they are not text. If it is not the last page, a second content says in words how to read the next one, and has
// the URI of that page. The last page has what the artifact lacks in further ones.
func Contents(a Address, artifact tools.Artifact, page *offload.Page) []*mcp.ResourceContents {
	first := &mcp.ResourceContents{URI: a.page(a.Offset), MIMEType: mediaType(artifact), Text: page.Content,
		Meta: mcp.Meta{"stevedore/total": page.TotalChars, "stevedore/unit": "characters"}}
	if page.Data != nil || page.MediaType != "" {
		first.Text, first.Blob = "", page.Bytes()
	}
	if a.Offset == 0 && a.Limit == 0 {
		first.URI = URI(a.Session, a.ID)
	}
	if media, _, coded := strings.Cut(first.MIMEType, ";"); first.Text != "" && (coded || media == "text/plain") { // the page is decoded
		first.MIMEType = media + "; charset=utf-8"
	}
	if page.NextOffset == 0 {
		contents := []*mcp.ResourceContents{first}
		for _, note := range page.Notes {
			contents = append(contents, &mcp.ResourceContents{URI: first.URI, MIMEType: "text/plain", Text: "[" + note + "]"})
		}
		return contents
	}
	next := a.page(page.NextOffset)
	first.Meta["stevedore/next"] = next
	note := fmt.Sprintf("[This page is characters %d to %d of %d. The next page is %s]", a.Offset, page.NextOffset-1, page.TotalChars, next)
	return []*mcp.ResourceContents{first, {URI: next, MIMEType: "text/plain", Text: note}}
}
