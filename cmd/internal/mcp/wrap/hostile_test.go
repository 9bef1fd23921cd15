package wrap

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
)

// raw is a client that writes lines.
type raw struct {
	in    *io.PipeWriter
	out   *bufio.Reader
	dir   string
	ended chan error
	// capabilities are those of the answer to initialize.
	capabilities map[string]any
}

// wrapRaw wraps this test program in a role, and opens a session.
func wrapRaw(t *testing.T, role string, client ...string) *raw {
	t.Helper()
	return wrapRawWith(t, role, append(client, "raw")[0], Config{})
}

func wrapRawWith(t *testing.T, role, client string, cfg Config) *raw {
	t.Helper()
	store, err := disk.Open(t.TempDir(), offload.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	clientIn, proxyOut := io.Pipe()
	proxyIn, clientOut := io.Pipe()
	c := &raw{in: clientOut, out: bufio.NewReader(clientIn), dir: t.TempDir(), ended: make(chan error, 1)}
	go func() {
		cfg.Name, cfg.Session, cfg.Store, cfg.Server = "test server", "s", store, startProgram(role, c.dir)
		c.ended <- Run(t.Context(), NewStream(proxyIn, proxyOut, func() { proxyOut.Close() }), cfg)
	}()
	t.Cleanup(func() {
		c.in.Close()
		go io.Copy(io.Discard, c.out)
		select {
		case err := <-c.ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(testTimeout):
			t.Error("the proxy does not end after its client")
		}
		store.Close()
	})
	c.say(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"`+client+`","version":"1"}}}`)
	c.capabilities, _ = c.response(t, "0").Result["capabilities"].(map[string]any)
	c.say(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *raw) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// A server may write the id of a request and the token of its progress in another form.
func TestFormsOfIDs(t *testing.T) {
	t.Parallel()
	c := wrapRaw(t, "sdk")
	for given, want := range map[string]string{`"a\/1"`: `"a/1"`, `"\u00e9"`: `"é"`, "7.0": "7"} {
		c.say(t, `{"jsonrpc":"2.0","id":`+given+`,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)
		c.response(t, want)
	}
}

// response returns the response to a request, and drops what is before it.
func (c *raw) response(t *testing.T, id string) (m struct {
	ID     json.RawMessage
	Result map[string]any
	Error  struct{ Message string }
}) {
	t.Helper()
	for string(m.ID) != id {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			t.Fatalf("no response to %s: %v", id, err)
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v in %.200q", err, line)
		}
	}
	return m
}

// A server may read nothing while it writes. The proxy goes on to read.
func TestServerThatDoesNotRead(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("it moves many messages")
	}
	c := wrapRaw(t, "raw")
	go func() {
		io.WriteString(c.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deaf","_meta":{"progressToken":"x"}}}`+"\n")
		for i := range 4000 {
			fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"x":"%s"}}`+"\n", i+2, strings.Repeat("x", 200))
		}
	}()
	c.response(t, "1")
	c.response(t, "4001")
}

// The requests that wait for a server have a limit, and the client is told which one was
// not sent.
func TestServerThatNeverReads(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it moves 80 MB")
	}
	c := wrapRaw(t, "raw")
	const requests = 80 // of almost 1 MiB
	go func() {
		io.WriteString(c.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asleep"}}`+"\n")
		for i := range requests {
			fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"x":"%s"}}`+"\n", i+2, strings.Repeat("x", 1<<20-1000))
		}
	}()
	checkContains(t, c.response(t, fmt.Sprint(requests+1)).Error.Message, "does not read its input, and 64 MiB of requests wait for it", "not sent; try again later")
	if err := os.WriteFile(filepath.Join(c.dir, "awake"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.response(t, "2") // the first ones are sent then
}

// A server may ask more than its client answers. The requests that wait have a limit, and
// the server is told which one is above it.
func TestServerThatAsksWithoutEnd(t *testing.T) {
	t.Parallel()
	c := wrapRaw(t, "raw")
	c.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask without end"}}`)
	checkContains(t, fmt.Sprint(c.response(t, "1").Result), "too many requests to the client are open")
}

// A message that is too large is an error for its request only, from either side.
func TestTooLargeMessages(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("messages of 64 MiB are slow under the race detector")
	}
	c := wrapRaw(t, "raw")
	c.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"too large"}}`)
	checkContains(t, fmt.Sprint(c.response(t, "1").Result), "isError:true", "more than the 64 MiB that a message may have", "may have acted")
	c.say(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":{"text":"`+strings.Repeat("x", wire.MaxMessage)+`"}}}`)
	checkContains(t, c.response(t, "2").Error.Message, "larger than the limit of 64 MiB")
	c.say(t, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"safe"}}`)
	checkContains(t, fmt.Sprint(c.response(t, "3").Result), "safe done")
}

// A response that is nested too deeply is an error for its request, and nobody waits.
func TestDeepResponse(t *testing.T) {
	t.Parallel()
	c := wrapRaw(t, "raw")
	c.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deep"}}`)
	checkContains(t, fmt.Sprint(c.response(t, "1").Result), "isError:true", "not valid JSON or is nested too deeply", "may have acted")
	c.say(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"safe"}}`)
	checkContains(t, fmt.Sprint(c.response(t, "2").Result), "safe done")
}

// A client that cannot use links gets none, and clients of earlier revisions get no members
// of revision 2026-07-28.
func TestClientsThatKnowLess(t *testing.T) {
	t.Parallel()
	for client, links := range map[string]bool{"raw": true, "@langchain/mcp-adapters": false} {
		c := wrapRaw(t, "raw", client)
		c.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"big"}}`)
		got := fmt.Sprint(c.response(t, "1").Result)
		checkContains(t, got, "stored as the artifact")
		if strings.Contains(got, "resource_link") != links {
			t.Errorf("%s: %s", client, got)
		}
		for _, request := range []string{`"method":"tools/call","params":{"name":"read_result","arguments":{}}`, `"method":"resources/list"`, `"method":"resources/templates/list"`} {
			c.say(t, `{"jsonrpc":"2.0","id":2,`+request+`}`)
			result := c.response(t, "2").Result
			for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
				if result == nil || result[member] != nil {
					t.Errorf("%s: %v", request, result)
				}
			}
		}
	}
}

// The client may close its side before its requests are answered.
func TestAnswersAfterEnd(t *testing.T) {
	t.Parallel()
	c := wrapRaw(t, "raw")
	c.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.response(t, "1") // the server runs: it has a limited time for the open requests
	c.say(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"big"}}`)
	c.in.Close()
	got := c.response(t, "2")
	checkContains(t, fmt.Sprint(got.Result), "stored as the artifact")
}

// A request of an extension may act, so it is not repeated.
func TestUnknownMethodIsNotRepeated(t *testing.T) {
	t.Parallel()
	c := wrapRaw(t, "raw")
	c.say(t, `{"jsonrpc":"2.0","id":1,"method":"acme/act","params":{}}`)
	checkContains(t, c.response(t, "1").Error.Message, "ended while it handled acme/act", "may have acted")
	acts, err := os.ReadFile(filepath.Join(c.dir, "acts"))
	if err != nil || len(acts) != 1 {
		t.Errorf("%d acts, %v", len(acts), err)
	}
}

// The result of a task fits the schema of its tool, and counts as one of it.
func TestTaskResultFitsSchema(t *testing.T) {
	t.Parallel()
	counts := make(chan Count, 10)
	c := wrapRawWith(t, "tasks", "raw", Config{Count: func(c Count) { counts <- c }})
	c.say(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.response(t, "1")
	c.say(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"task"}}`)
	c.response(t, "2")
	c.say(t, `{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t1"}}`)
	result := c.response(t, "3").Result["result"].(map[string]any)
	if err := validates(outputSchemas["closed"], result["structuredContent"]); err != nil {
		t.Errorf("%.500v: %v", result, err)
	}
	checkContains(t, fmt.Sprint(result), "Shortened: the whole structured result")
	select {
	case c := <-counts:
		if c.Tool != "task" || c.Shown >= c.Whole {
			t.Errorf("counted %+v", c)
		}
	case <-time.After(testTimeout):
		t.Error("the result of the task was not counted")
	}
}
