package wrap

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
)

// One tool with a short definition reads in every way that the family does.
func TestReadResult(t *testing.T) {
	t.Parallel()
	s := wrapServer(t, "sdk")
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if strings.Contains(tool.Name, "knowledge") && tool.Name != "grep_knowledge" { // the server's own
			t.Errorf("the tool %s is offered", tool.Name)
		}
		if tool.Name == artifacts.ReadResult {
			if definition, err := json.Marshal(tool); err != nil || len(definition) > 400 {
				t.Errorf("the definition has %d characters: %s, %v", len(definition), definition, err)
			}
		}
	}
	res := s.call(t, "big", map[string]any{"lines": 5000})
	id := res.Content[1].(*mcp.ResourceLink).Name
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"id": id, "lines": "10-12"}, "Lines 10-12 of 5000"},
		{map[string]any{"id": id, "lines": "10"}, "Lines 10-10 of 5000"},
		{map[string]any{"id": id, "lines": 10, "grep": "", "jq": nil, "offset": 0}, "Lines 10-10 of 5000"},
		{map[string]any{"id": id, "lines": "-20"}, "Lines 4981-5000 of 5000"},
		{map[string]any{"id": id, "lines": "4990-"}, "Lines 4990-5000 of 5000"},
		{map[string]any{"id": id, "lines": []any{10, 20}}, "Lines 10-20 of 5000"},
		{map[string]any{"id": id, "lines": "10–20"}, "Lines 10-20 of 5000"},
		{map[string]any{"id": id, "lines": "-20--19"}, "Lines 4981-4982 of 5000"},
		{map[string]any{"artifact_id": id, "grep": "LINE\" 4321$", "ignore_case": true}, "Found 1 match(es)"},
		{map[string]any{"id": id, "offset": "108000"}, "line\" 4999"},
		{map[string]any{"id": id}, "the next page has offset="},
		{map[string]any{"id": id, "jq": "."}, "read_result with grep"}, // it is not JSON
		{map[string]any{}, id},
		{nil, id},
		{map[string]any{"id": "nosuch"}, "read_result lists the artifacts"},
		{map[string]any{"id": id, "lines": "x"}, "want a range such as"},
		{map[string]any{"id": id, "lines": "1-2", "grep": "x"}, "give one of grep and lines"},
		{map[string]any{"sql": "SELECT 1 AS x FROM " + id}, "use read_result with grep"}, // it is no table
		{map[string]any{"id": 7}, "there is no artifact"},
		{map[string]any{"id": map[string]any{}}, "id"},
	} {
		got := texts(s.call(t, artifacts.ReadResult, c.args))
		if !strings.Contains(got, c.want) || strings.Contains(got, "_knowledge") {
			t.Errorf("%v: %.300s", c.args, got)
		}
	}
	// Pages of every way continue with the cursor.
	page := texts(s.call(t, artifacts.ReadResult, map[string]any{"id": id, "grep": "line", "max_results": 10_000}))
	_, cursor, _ := strings.Cut(page, `cursor="`)
	cursor, _, _ = strings.Cut(cursor, `"`)
	next := texts(s.call(t, artifacts.ReadResult, map[string]any{"id": id, "grep": "line", "cursor": cursor}))
	if cursor == "" || strings.Contains(next, "line\" 0\n") {
		t.Errorf("cursor %q: %.200s", cursor, next)
	}
}

// In each host that is known, a result costs the model at most 300 characters more than
// without the proxy, and the host cuts neither a reference nor a page.
func TestHosts(t *testing.T) {
	t.Parallel()
	for client, native := range map[string]struct{ cut, after int }{ // the host shows cut characters, or after of a longer result
		"claude-code":           {62_500, 1_310},
		"codex-mcp-client":      {10_000, 10_000},
		"opencode":              {48_000, 48_000},
		"gemini-cli-mcp-client": {40_000, 40_000},
		"copilot-cli":           {10_000, 10_000},
		"some host":             {1 << 30, 1 << 30},
	} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			c := wrapRaw(t, "sdk", client)
			ask := func(tool string, args map[string]any) string {
				t.Helper()
				params, err := json.Marshal(map[string]any{"name": tool, "arguments": args})
				if err != nil {
					t.Fatal(err)
				}
				c.say(t, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":`+string(params)+`}`)
				content := c.response(t, "9").Result["content"].([]any)
				return content[0].(map[string]any)["text"].(string)
			}
			for _, lines := range []int{200, 500, 1300, 5000, 20_000} { // 4 to 440 KB
				size := utf8.RuneCountInString(bigText(lines))
				want := size
				if size > native.cut {
					want = native.after
				}
				got := ask("big", map[string]any{"lines": lines})
				if n := utf8.RuneCountInString(got); n > want+300 && !(client == "some host" && size < 40_000) {
					t.Errorf("%d characters: the model sees %d, natively %d", size, n, want)
				}
				if !strings.Contains(got, "read_result(id, ") {
					continue
				}
				if n := utf8.RuneCountInString(got); client != "some host" && n > 800 {
					t.Errorf("the reference has %d characters", n)
				}
				_, id, _ := strings.Cut(got, "the artifact '")
				id, _, _ = strings.Cut(id, "'")
				for _, way := range []map[string]any{{"offset": 0}, {"offset": 0, "limit": 15_000}, {"lines": "1-100000"}, {"grep": "line", "max_results": 100_000}} {
					way["id"] = id
					if page := ask(artifacts.ReadResult, way); len(page) > native.cut {
						t.Errorf("%v: the page has %d bytes, and the host shows %d", way, len(page), native.cut)
					} else if !strings.Contains(page, "line") {
						t.Errorf("%v: %.200s", way, page)
					}
				}
				c.say(t, `{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"stevedore://s/artifacts/`+id+`"}}`)
				page := c.response(t, "9").Result["contents"].([]any)[0].(map[string]any)["text"].(string)
				if !strings.Contains(page, "line") || len(page) > native.cut {
					t.Errorf("the resource: the page has %d bytes, and the host shows %d: %.200s", len(page), native.cut, page)
				}
			}
		})
	}
}
