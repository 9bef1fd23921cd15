package wrap

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
)

// shrunk returns the texts of a result of a tool that was shrunk, the other blocks, and the stored results.
func shrunk(t *testing.T, schema string, result fields) (whole json.RawMessage, texts string, others []string, stored []string) {
	t.Helper()
	store := mem.New(offload.StoreConfig{})
	p, err := newProxy(pipe{}, Config{Name: "test server", Session: "s", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	p.known, p.listed = map[string]toolInfo{"big": {outputSchema: json.RawMessage(schema)}}, true
	r := &request{Message: wire.Request("1", "tools/call", nil), tool: "big"}
	if whole, err = p.shrinkCall(t.Context(), nil, r, wire.JSON(result)); err != nil {
		t.Fatal(err)
	}
	for raw := range wire.Elements(wire.Get(whole, "content")) {
		if text, ok := wire.Text(wire.Get(raw, "text")); ok {
			texts += text + "\n"
		} else if kind, _ := wire.Text(wire.Get(raw, "type")); kind != "resource_link" {
			others = append(others, string(raw))
		}
	}
	for rec, err := range store.List(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		c, err := store.Open(t.Context(), rec)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, string(data))
	}
	return whole, texts, others, stored
}

// A short file beside many texts stays a file, and the texts are a text.
func TestFileBesideManyTexts(t *testing.T) {
	t.Parallel()
	file := fields{"type": "resource", "resource": fields{"uri": "x:y", "blob": bytes.Repeat([]byte{0, 1, 0xff}, 40), "mimeType": "image/x-icon"}}
	content, want := []any{file}, []string{}
	for i := range 5 {
		want = append(want, strings.Repeat(fmt.Sprintf("a line of the text %d\n", i), 1000))
		content = append(content, textBlock(want[i]))
	}
	_, texts, others, stored := shrunk(t, "", fields{"content": content})
	if !slices.Equal(others, []string{string(wire.JSON(file))}) || !slices.Equal(stored, []string{strings.Join(want, "\n")}) {
		t.Errorf("beside the texts %.300q: %d blocks, stored %.50q", texts, len(others), stored)
	}
}

// If the schema of a structured content allows no short form, the rest of the result stays.
func TestContentBesideStructuredContent(t *testing.T) {
	t.Parallel()
	rows := strings.Repeat("x", 50_000)
	picture := fields{"type": "image", "data": []byte("hi"), "mimeType": "image/png"}
	whole, texts, others, _ := shrunk(t, `{"type":"object","properties":{"rows":{"type":"string","minLength":49000}}}`, fields{
		"content": []any{textBlock("3 rows are doubtful"), picture}, "structuredContent": fields{"rows": rows}, "_meta": fields{"a": 1}})
	checkContains(t, texts, "3 rows are doubtful", "its schema allows no shorter one", "stored as the artifact")
	if !slices.Equal(others, []string{string(wire.JSON(picture))}) || string(wire.Get(whole, "isError")) != "true" ||
		wire.Get(whole, "structuredContent") != nil || string(wire.Get(whole, "_meta", "a")) != "1" {
		t.Errorf("%.500s", whole)
	}
}

// The artifact of a call in the background has the structured content if its texts do not repeat it.
func TestStructuredContentOfABackgroundCall(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		result fields
		want   string // "" is the whole result
	}{
		{fields{"content": []any{textBlock("2 rows")}, "structuredContent": fields{"rows": []int{7, 8}}}, ""},
		{fields{"content": []any{textBlock(`{"rows": [7, 8]}`)}, "structuredContent": fields{"rows": []int{7, 8}}}, `{"rows": [7, 8]}`},
		{fields{"content": []any{textBlock("2 rows")}, "structuredContent": nil}, "2 rows"},
	} {
		m := wire.Response("1", row.result)
		if got := new(request).jobText(m); got != cmp.Or(row.want, string(m.Result)) {
			t.Errorf("%s: %s", m.Result, got)
		}
	}
}
