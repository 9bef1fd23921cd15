package wrap

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
)

// tools returns the list of tools as text.
func (c *raw) tools(t *testing.T, id string) string {
	t.Helper()
	c.say(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list"}`)
	return fmt.Sprint(c.response(t, id).Result["tools"])
}

func (c *raw) line(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

const callBig = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"big"}}`

// A host that follows changes of the list gets the reading tool with the first reference.
func TestLateTool(t *testing.T) {
	t.Parallel()
	c := wrapRawWith(t, "raw", "opencode", Config{LateTools: true})
	if got := fmt.Sprint(c.capabilities); got != "map[tools:map[listChanged:true]]" {
		t.Errorf("capabilities %s", got)
	}
	if list := c.tools(t, "1"); strings.Contains(list, artifacts.ReadResult) || !strings.Contains(list, "safe") {
		t.Errorf("before the first result: %s", list)
	}
	c.say(t, fmt.Sprintf(callBig, 2))
	if got := c.line(t); !strings.Contains(got, "notifications/tools/list_changed") {
		t.Fatalf("got %.200s", got)
	}
	c.say(t, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	if got := c.line(t); !strings.Contains(got, `"id":3`) || !strings.Contains(got, artifacts.ReadResult) {
		t.Fatalf("the reference came first, or without the tool: %.200s", got)
	}
	if got := c.line(t); !strings.Contains(got, `"id":2`) || !strings.Contains(got, "read_result(id, ") {
		t.Fatalf("got %.200s", got)
	}
	c.say(t, fmt.Sprintf(callBig, 4))
	if got := c.line(t); !strings.Contains(got, `"id":4`) {
		t.Errorf("the second reference: %.200s", got)
	}
}

// Claude Code asks with server/discover first, in a revision that its session then does not have.
func TestLateToolAfterDiscover(t *testing.T) {
	t.Parallel()
	c := wrapRawWith(t, "raw", "claude-code", Config{LateTools: true})
	c.say(t, `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"claude-code"}}}}`)
	c.line(t)
	c.say(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"1"}}}`)
	c.response(t, "1")
	if list := c.tools(t, "2"); strings.Contains(list, artifacts.ReadResult) || !strings.Contains(list, "safe") {
		t.Errorf("before the first result: %s", list)
	}
}

// A client that does not list again gets the reference all the same.
func TestLateToolThatNobodyLists(t *testing.T) {
	t.Parallel()
	c := wrapRawWith(t, "raw", "opencode", Config{LateTools: true})
	c.say(t, fmt.Sprintf(callBig, 1))
	if got := fmt.Sprint(c.response(t, "1").Result["content"]); !strings.Contains(got, "read_result(id, ") {
		t.Errorf("got %.200s", got)
	}
	if list := c.tools(t, "2"); !strings.Contains(list, artifacts.ReadResult) {
		t.Errorf("after the first result: %s", list)
	}
}

// All others have the tool from the start: hosts whose list stays, and sessions that may
// have results.
func TestToolFromTheStart(t *testing.T) {
	t.Parallel()
	for client, late := range map[string]bool{"claude-code": false, "codex-mcp-client": false, "gemini-cli-mcp-client": true, "some host": true, "opencode": false} {
		c := wrapRawWith(t, "raw", client, Config{LateTools: late})
		if list := c.tools(t, "1"); !strings.Contains(list, artifacts.ReadResult) {
			t.Errorf("%s: %s", client, list)
		}
		c.say(t, fmt.Sprintf(callBig, 2))
		if got := c.line(t); !strings.Contains(got, `"id":2`) {
			t.Errorf("%s: %.200s", client, got)
		}
	}
}

// A host that makes tools of resources gets none that the server does not have.
func TestHostsWithToolsForResources(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]bool{"claude-code": false, "opencode": false, "codex-mcp-client": true, "some host": true} {
		c := wrapRaw(t, "raw", client)
		if _, got := c.capabilities["resources"]; got != want {
			t.Errorf("%s: capabilities %v", client, c.capabilities)
		}
		c.say(t, fmt.Sprintf(callBig, 1))
		if got := fmt.Sprint(c.response(t, "1").Result["content"]); strings.Contains(got, "resource_link") != want {
			t.Errorf("%s: %.300s", client, got)
		}
	}
}

// Hosts whose model can read without a tool of the proxy get none.
func TestHostsThatNeedNoTool(t *testing.T) {
	t.Parallel()
	read := Config{LateTools: true, ReadCommand: "stevedore read --session s"}
	codex := wrapRawWith(t, "sdk", "codex-mcp-client", read)
	if list := codex.tools(t, "1"); strings.Contains(list, artifacts.ReadResult) {
		t.Errorf("Codex: %s", list)
	}
	codex.say(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"big","arguments":{"lines":5000}}}`)
	content := codex.response(t, "2").Result["content"].([]any)
	reference := content[0].(map[string]any)["text"].(string)
	_, id, _ := strings.Cut(reference, "the artifact '")
	id, _, _ = strings.Cut(id, "'")
	if !strings.Contains(reference, "read_mcp_resource of this server, uri stevedore://s/artifacts/ID?grep=REGEXP or ?lines=10-40 or ?offset=0") || len(reference) > 1000 {
		t.Errorf("Codex: %s", reference)
	}
	for query, want := range map[string]string{
		"?grep=LINE\\\" 4321$&ignore_case=true": "Found 1 match(es)", "?grep=line%5C%22 4321%24": "Found 1 match(es)", "?lines=10-12": "Lines 10-12 of 5000", "?lines=-20": "Lines 4981-5000 of 5000",
		"?offset=108000": "line\" 4999", "": "the next page has offset=7500", "?lines=x": "want a range such as", "?lines=1-2&grep=x": "give one of grep and lines",
		"?jq=.": "use ?grep=REGEXP or ?lines=10-40", // it is not JSON
	} {
		codex.say(t, `{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"stevedore://s/artifacts/`+id+query+`"}}`)
		got := fmt.Sprint(codex.response(t, "3").Result["contents"])
		if !strings.Contains(got, want) || len(got) > 9000 {
			t.Errorf("%s: %.300s", query, got)
		}
	}
	for uri, want := range map[string]string{ // what an error advises works
		"stevedore://s/artifacts/nosuch?lines=1-2": "read_mcp_resource of this server, uri stevedore://s/artifacts/ lists the artifacts", "stevedore://s/artifacts/": id,
	} {
		codex.say(t, `{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"`+uri+`"}}`)
		if got := fmt.Sprint(codex.response(t, "5").Result["contents"]); !strings.Contains(got, want) {
			t.Errorf("%s: %.300s", uri, got)
		}
	}
	codex.say(t, `{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"stevedore://other/artifacts/`+id+`"}}`)
	if got := codex.line(t); !strings.Contains(got, "belongs to another session") {
		t.Errorf("another session: %.300s", got)
	}

	gemini := wrapRawWith(t, "raw", "gemini-cli-mcp-client", read)
	if list := gemini.tools(t, "1"); strings.Contains(list, artifacts.ReadResult) {
		t.Errorf("Gemini: %s", list)
	}
	gemini.say(t, fmt.Sprintf(callBig, 2))
	if got := fmt.Sprint(gemini.response(t, "2").Result["content"]); !strings.Contains(got, "the command: stevedore read --session s ID --") {
		t.Errorf("Gemini: %.300s", got)
	}
	// The tool waits for calls in the background.
	read.BackgroundAfter = time.Hour
	if list := wrapRawWith(t, "raw", "codex-mcp-client", read).tools(t, "1"); !strings.Contains(list, artifacts.ReadResult) {
		t.Errorf("with calls in the background: %s", list)
	}
}
