// Package artifacts shows the artifacts of a session to MCP clients: as links in tool
// results, as resources with pages, and through the reading tools.
package artifacts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// scheme is the scheme of the resources.
const scheme = "stevedore"

// uriTemplate is the URI template of artifacts (RFC 6570).
const uriTemplate = scheme + "://{session}/artifacts/{artifact_id}{?offset,limit}"

// Template explains the URIs to models.
var Template = &mcp.ResourceTemplate{
	URITemplate: uriTemplate, Name: "artifact",
	Description: "An offloaded tool result, in pages: offset is the first character and limit the length, at most 15,000; a byte that is " +
		"not UTF-8 is a character of its own. The last content of a page says which page is next.",
}

// URI returns the URI of an artifact.
func URI(session, id string) string {
	return (&url.URL{Scheme: scheme, Host: session, Path: "/artifacts/" + id}).String()
}

// Address is a parsed URI: a page of an artifact.
type Address struct {
	Session, ID   string
	Offset, Limit int64 // Limit is at most offload.PageChars, and 0 means that
}

// IsURI reports whether a URI has our scheme.
func IsURI(uri string) bool {
	return len(uri) > len(scheme) && strings.EqualFold(uri[:len(scheme)+1], scheme+":")
}

// ParseURI parses the URI of an artifact or of one of its pages.
func ParseURI(uri string) (Address, error) {
	wrong := tools.Errorf(tools.CodeInvalidArguments, "want a URI like %s", uriTemplate)
	u, err := url.Parse(uri)
	if err != nil || !strings.EqualFold(u.Scheme, scheme) {
		return Address{}, wrong
	}
	id, ok := strings.CutPrefix(u.Path, "/artifacts/")
	a := Address{Session: u.Host, ID: id}
	if !ok || !tools.IsToken(a.Session) || !tools.IsToken(id) || u.User != nil || u.Fragment != "" {
		return Address{}, wrong
	}
	for name, value := range u.Query() {
		n, err := strconv.ParseInt(value[0], 10, 64)
		if err != nil || n < 0 || len(value) > 1 {
			return Address{}, tools.Errorf(tools.CodeInvalidArguments, "%s=%s: want one number, 0 or more", tools.Excerpt(name, 40), tools.Excerpt(value[0], 40))
		}
		switch name {
		case "offset":
			a.Offset = n
		case "limit":
			a.Limit = min(n, offload.PageChars)
		default:
			return Address{}, wrong
		}
	}
	return a, nil
}

// ParseRead returns the arguments of ReadResult that the query of a URI has, with the id of the
// artifact; nil if the URI is not that of an artifact.
func ParseRead(uri string) (session string, args json.RawMessage) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", nil
	}
	id, ok := strings.CutPrefix(u.Path, "/artifacts/")
	if !ok {
		return "", nil
	}
	in := map[string]string{"id": id}
	for pair := range strings.SplitSeq(u.RawQuery, "&") { // models do not escape: only & and % are special
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if name != "" {
			in[name] = value
		}
	}
	args, _ = json.Marshal(in) // texts have a JSON form
	return u.Host, args
}

// page returns the URI of another page.
func (a Address) page(offset int64) string {
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}}
	if a.Limit > 0 {
		query.Set("limit", strconv.FormatInt(a.Limit, 10))
	}
	return URI(a.Session, a.ID) + "?" + query.Encode()
}

// mediaType returns the media type of an artifact.
func mediaType(a tools.Artifact) string {
	switch {
	case a.MediaType != "":
		return a.MediaType
	case a.Type == offload.TypeJSON:
		return "application/json"
	case a.Type == offload.TypeBinary:
		return "application/octet-stream"
	}
	return "text/plain"
}

// LinkTo returns the content block that links to an artifact.
func LinkTo(session string, a tools.Artifact) *mcp.ResourceLink {
	return &mcp.ResourceLink{
		URI: URI(session, a.ID), Name: a.ID, MIMEType: mediaType(a), Size: &a.Size,
		Description: "The whole result; resources/read returns it in pages.",
	}
}

// List returns a page of artifacts for resources/list, the newest first. query returns the listing without the newest
// offset ones.
func List(cursor string, query func(offset int) (*offload.Listing, error)) (*mcp.ListResourcesResult, error) {
	offset, err := strconv.Atoi(cmp.Or(cursor, "0"))
	if err != nil || offset < 0 {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "%q is not a cursor of this list", tools.Excerpt(cursor, 40))
	}
	l, err := query(offset)
	if err != nil {
		return nil, err
	}
	page := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
	if l.NextOffset > 0 {
		page.NextCursor = strconv.Itoa(l.NextOffset)
	}
	for _, a := range slices.Backward(l.Artifacts) {
		page.Resources = append(page.Resources, &mcp.Resource{
			URI: URI(a.Session, a.ID), Name: a.ID, MIMEType: mediaType(a.Artifact), Size: a.Size,
			Description: fmt.Sprintf("A result of %s: %s", tools.Excerpt(a.Metadata["tool_name"], 64), size(a.Artifact)),
		})
	}
	return page, nil
}

// size describes the size of an artifact.
func size(a tools.Artifact) string {
	if a.Type == offload.TypeBinary {
		return fmt.Sprintf("%d bytes", a.Size)
	}
	return fmt.Sprintf("%d characters in %d lines", a.Chars, a.Lines)
}
