package mcp

import (
	"crypto/rand"
	"strings"
	"testing"
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
