package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp"
	"github.com/stevedore-bus/stevedore/tools"
)

// post sends a message of revision 2025-11-25.
func post(ctx context.Context, t *testing.T, url, token, sessionID, message string) *http.Response {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization": "Bearer " + token, "Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": sessionID} {
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// initialize returns the Mcp-Session-Id of a new client.
func initialize(t *testing.T, url, token string) string {
	res := post(t.Context(), t, url, token, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	id := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize: %s, session %q", res.Status, id)
	}
	return id
}

// Clients of older revisions cancel a request through any gateway, and only their own.
func TestCancelBySessionID(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 3, mcp.Config{}) // odd, so a call and its cancellation meet different gateways
	one, two := initialize(t, url, aliceToken), initialize(t, url, aliceToken)
	if one == two {
		t.Fatal("two clients have the same Mcp-Session-Id")
	}
	// slow returns after the call has begun; answer is the last event of its stream.
	slow := func(token, sessionID, id string) (answer func() string) {
		res := post(t.Context(), t, url, token, sessionID, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":%s}}}`, id, id))
		lines := bufio.NewScanner(res.Body)
		next := func() (data string) {
			for lines.Scan() {
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
					return data
				}
			}
			return ""
		}
		if first := next(); !strings.Contains(first, "half") {
			t.Fatalf("the first event is %q", first)
		}
		return func() (last string) {
			for data := next(); data != ""; data = next() {
				last = data
			}
			return last
		}
	}
	cancel := func(token, sessionID, id string) {
		res := post(t.Context(), t, url, token, sessionID, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`)
		if res.StatusCode != http.StatusAccepted {
			t.Errorf("notifications/cancelled: %s", res.Status)
		}
	}
	first, second := slow(aliceToken, one, "7"), slow(aliceToken, two, "7")
	third, unknown := slow(aliceToken, one, `"7"`), slow(aliceToken, "from-another-time", "1")
	// None of these names a call.
	cancel(aliceToken, "", "7")
	cancel(bobToken, two, "7")
	cancel(aliceToken, two, `"7"`)
	cancel(aliceToken, one, "8")
	cancel(aliceToken, one, "7.0") // as some programs write 7
	cancel(aliceToken, "from-another-time", "1")
	bustest.WaitUntil(t, "two cancelled calls", func() bool { return cancelled(t, c, "alice") >= 2 })
	first()
	unknown()
	close(c.release)
	for name, answer := range map[string]func() string{"another client": second, "an id of another type": third} {
		var m struct {
			Result struct{ Content []struct{ Text string } }
		}
		if last := answer(); json.Unmarshal([]byte(last), &m) != nil || len(m.Result.Content) == 0 || m.Result.Content[0].Text != "slow done" {
			t.Errorf("%s: %s", name, last)
		}
	}
	if n := cancelled(t, c, "alice"); n != 2 {
		t.Errorf("%d calls were cancelled, want 2", n)
	}
}

// A client cannot set the header between the gateway's two parts.
func TestForgedRequestKey(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 1, mcp.Config{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + aliceToken, "Stevedore-Request-Key": "a b.>"} {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all strings.Builder
	if _, err := bufio.NewReader(res.Body).WriteTo(&all); err != nil || !strings.Contains(all.String(), `"text":"hi"`) {
		t.Errorf("%s %s: %v", res.Status, all.String(), err)
	}
}

// A client that cancels while its call is being stored cancels the call, too.
func TestCancelWhileTheCallIsStored(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	stored, err := c.Conn().SubscribeSync(c.Call("default", "slow", "stdio", "*"))
	if err != nil {
		t.Fatal(err)
	}
	s := overStdio(t, c.Bus)
	const calls = 10
	seen := map[string]bool{} // a publish whose acknowledgement is late is repeated
	for range calls {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "slow"})
			ended <- err
		}()
		for isNew := false; !isNew; {
			m, err := stored.NextMsg(bustest.Timeout)
			if err != nil {
				cancel()
				t.Fatalf("%v; the call ended: %v", err, <-ended)
			}
			isNew = !seen[m.Subject]
			seen[m.Subject] = true
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("the cancelled call succeeded")
		}
	}
	bustest.WaitUntil(t, "the cancelled calls", func() bool { return cancelled(t, c, "stdio") == calls })
}

// overStdio returns the session "stdio" of a gateway.
func overStdio(t *testing.T, b *bus.Bus) *sdk.ClientSession {
	t.Helper()
	mine, theirs := sdk.NewInMemoryTransports()
	bustest.Run(t, func(ctx context.Context) error {
		_ = mcp.New(b, mcp.Config{}).Stdio(ctx, "stdio", theirs) // an error if the client ends it
		return nil
	})
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), mine, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestTaskToolOfAWorker: while nobody knows what the workers offer, a tool of theirs may have the name get_task_result.
func TestTaskToolOfAWorker(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	s := overStdio(t, b)
	args := map[string]any{"call_id": "x"}
	if got := text(t, call(t, s, "get_task_result", args)); !strings.HasPrefix(got, "there is no task") {
		t.Errorf("no worker offers it: %q", got)
	}
	b.Close()
	if res := call(t, s, "get_task_result", args); !res.IsError || !strings.HasPrefix(text(t, res), "The bus cannot be reached") {
		t.Errorf("without a connection: %q", text(t, res))
	}
}

// TestSilentWorkers: workers that do not answer in time may have any tool. A client keeps those that it knows.
func TestSilentWorkers(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		silent := new(atomic.Bool)
		stop, err := task.AnswerAll(b, bustest.Log(t), b.RPC("offer"), func(*nats.Msg) any {
			if silent.Load() {
				return nil
			}
			return tools.Offer{Worker: "w", Queues: []string{bus.DefaultQueue}, Tools: []tools.OfferedTool{{Name: "known"}}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		g := mcp.New(b, mcp.Config{Refresh: time.Nanosecond})
		list := func() (names []string) {
			t.Helper()
			server, err := g.Server(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			mine, theirs := sdk.NewInMemoryTransports()
			session, err := server.Connect(t.Context(), theirs, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			s, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), mine, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			all, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tool := range all.Tools {
				names = append(names, tool.Name)
			}
			got := text(t, call(t, s, "get_task_result", map[string]any{"call_id": "x"}))
			if silent.Load() != strings.HasPrefix(got, "Nothing was run: no worker answered") {
				t.Errorf("silent %v: %q", silent.Load(), got)
			}
			return names
		}
		if names := list(); !slices.Contains(names, "known") {
			t.Errorf("the workers answer, and the tools are %v", names)
		}
		silent.Store(true)
		if names := list(); !slices.Contains(names, "known") {
			t.Errorf("the workers are silent, and the tools are %v", names)
		}
	})
}

// cancelled returns how many calls of a session were cancelled.
func cancelled(t *testing.T, c *cluster, session string) (n int) {
	for m, err := range c.Read(t.Context(), bus.Results, bus.Query{Subject: c.Result(session, "*")}) {
		if err != nil {
			t.Fatal(err)
		}
		if e, err := tools.DecodeResult(m.Body); err == nil && e.Outcome == tools.Cancelled {
			n++
		}
	}
	return n
}

// Clients of earlier revisions get no members of revision 2026-07-28, and the id that they wrote, which no float64 has.
func TestMembersOfARevision(t *testing.T) {
	t.Parallel()
	url := gateways(t, newCluster(t), 1, mcp.Config{})
	id := initialize(t, url, aliceToken)
	for i, call := range []string{`"tools/list"`, `"resources/list"`, `"resources/templates/list"`, `"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}`} {
		head := fmt.Sprintf(`"id":%d,`, 9007199254740993+2*i)
		message := `{"jsonrpc":"2.0",` + head + `"method":` + call + `}`
		res := post(t.Context(), t, url, aliceToken, id, message)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(body), head+`"result":{`) {
			t.Fatalf("%s: %s %v", message, body, err)
		}
		for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
			if strings.Contains(string(body), `"`+member+`"`) {
				t.Errorf("%s: %.300s", message, body)
			}
		}
	}
}
