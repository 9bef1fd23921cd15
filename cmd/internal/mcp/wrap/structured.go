package wrap

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// structuredOf returns the structured content of a result of a tool; nil if it has none.
func structuredOf(result json.RawMessage) json.RawMessage {
	structured := wire.Get(result, "structuredContent")
	if string(structured) == "null" {
		return nil
	}
	return structured
}

// Repeated reports whether the texts of a result are its structured content, as MCP wants it of servers: as JSON, as the only member of
// its object, or each element in a text of its own. Others send a text for people beside data for models.
func Repeated(structured json.RawMessage, texts []string) bool {
	if len(texts) == 0 || isText(structured, strings.Join(texts, "\n")) {
		return len(texts) > 0
	}
	if o := wire.ObjectOf(structured); len(o) == 1 {
		structured = o[0].Value
	}
	return isText(structured, strings.Join(texts, "\n")) ||
		wire.Kind(structured) == '[' && slices.EqualFunc(slices.Collect(wire.Elements(structured)), texts, isText)
}

// isText reports whether a text is a JSON string, or the JSON of a value in any form.
func isText(value json.RawMessage, text string) bool {
	if content, ok := wire.Text(value); ok && content == text {
		return true
	}
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	a, b := jsontext.NewDecoder(strings.NewReader(string(value)), lenient...), jsontext.NewDecoder(strings.NewReader(text), lenient...)
	for {
		one, err := a.ReadToken()
		other, otherErr := b.ReadToken()
		if err != nil || otherErr != nil {
			return err == io.EOF && otherErr == io.EOF
		}
		if one.Kind() != other.Kind() || one.String() != other.String() {
			return false
		}
	}
}
