package wrap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/mcp/artifacts"
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
	for client, late := range map[string]bool{"claude-code": true, "codex-mcp-client": true, "some host": true, "opencode": false} {
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
