package mcp

import (
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The key of a text that is no longer kept is an error, and never the text of a result.
func TestTextWasGivenUp(t *testing.T) {
	c := newConnection(nil, nil)
	var out strings.Builder
	if err := c.copyText(&out, keyPrefix+rand.Text()); err == nil || out.Len() > 0 {
		t.Errorf("got %q, %v", &out, err)
	}
	if err := c.copyText(&out, keyPrefix); err != nil || out.String() != keyPrefix {
		t.Errorf("got %q, %v", &out, err)
	}
}

// A text that the disk has no room for is an error of the output, also beside an image.
func TestTextThatIsNotStored(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	t.Setenv("TMP", missing) // on Windows
	res := newConnection(nil, nil).resultOf(&mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: strings.Repeat("text", 1<<20)}, &mcp.ImageContent{Data: []byte("hi"), MIMEType: "image/png"},
	}})
	if res.Output == nil || res.Output.Err() == nil || res.Blocks != nil {
		t.Errorf("an incomplete result has %d bytes of text and the blocks %.100s", len(res.ForLLM), res.Blocks)
	}
	_ = res.Close()
}
