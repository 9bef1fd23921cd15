package mcp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/offload"
	memory "github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	aliceToken = "alice-0123456789abcdef"
	bobToken   = "bob-0123456789abcdef"
)

// cluster is a bus with a worker.
type cluster struct {
	*bus.Bus
	store   offload.Store
	release chan struct{} // ends the tool slow
	runs    atomic.Int64  // of the tool once
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{Bus: bustest.New(t), release: make(chan struct{})}
	store := memory.New(offload.StoreConfig{})
	c.store = store
	reader := offload.NewReader(store, offload.ReaderConfig{})
	registry := tools.NewRegistry(zerolog.Nop())
	type args struct {
		Text string `json:"text,omitempty"`
	}
	add := func(name string, effect tools.Effect, f func(ctx context.Context, call tools.Call, in args) *tools.Result) {
		tool, err := tools.NewTool(name, "Tool "+name+".", f)
		if err == nil {
			err = registry.Register(tool.WithEffect(effect))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("echo", tools.Idempotent, func(_ context.Context, _ tools.Call, in args) *tools.Result { return tools.NewToolResult(in.Text) })
	add("big", tools.Idempotent, func(context.Context, tools.Call, args) *tools.Result { return tools.NewToolResult(bigText) })
	add("image", tools.Idempotent, func(context.Context, tools.Call, args) *tools.Result {
		return &tools.Result{ForLLM: "an image", Blocks: json.RawMessage(`[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + onePixel + `"}}]`)}
	})
	add("slow", tools.Once, func(ctx context.Context, _ tools.Call, _ args) *tools.Result {
		c.runs.Add(1)
		for {
			tools.ReportProgress(ctx, tools.Progress{Message: "half", Done: 1, Total: 2})
			select {
			case <-c.release:
				return tools.NewToolResult("slow done")
			case <-ctx.Done():
				return tools.Failure(ctx.Err())
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	if err := registry.Register(reader.Tools()...); err != nil {
		t.Fatal(err)
	}
	w := worker.New(c.Bus, registry, offload.NewOffloader(store, offload.Config{}), worker.Config{
		Queues: []string{"default"}, Slots: 16,
		Approvals: approvals.Rules{Needed: func(call tools.Call) bool { return strings.Contains(string(call.Args), `"danger`) }},
	})
	ready := make(chan struct{})
	service := rpc.NewService(c.Bus, reader, rpc.ServiceConfig{OnReady: func() { close(ready) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- w.Run(ctx) }()
	go func() { done <- service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	<-ready
	bustest.WaitUntil(t, "the worker's tools", func() bool {
		ok, err := rpc.HasWorker(t.Context(), c.Bus, "default", "slow")
		return ok && err == nil
	})
	return c
}

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

var bigText = strings.Repeat("a line of the result\n", 5000)

// gateways serves HTTP with n gateways behind a round-robin proxy.
func gateways(t *testing.T, c *cluster, n int, cfg mcp.Config) string {
	guard, err := httpauth.New(httpauth.Config{Tokens: map[string]string{aliceToken: "alice", bobToken: "bob"}})
	if err != nil {
		t.Fatal(err)
	}
	var proxies []*httputil.ReverseProxy
	for range n {
		srv := httptest.NewServer(guard.Handler(mcp.New(c.Bus, cfg).Handler()))
		t.Cleanup(srv.Close)
		u, err := url.Parse(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		p := httputil.NewSingleHostReverseProxy(u)
		p.FlushInterval = -1
		proxies = append(proxies, p)
	}
	var next atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// httputil cuts a response that begins while it still looks for the end of the request.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxies[int(next.Add(1))%n].ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

type withHeader map[string]string

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultClient.Transport.RoundTrip(r)
}

func dial(t *testing.T, url string, header withHeader, opts *sdk.ClientOptions) (*sdk.Client, *sdk.ClientSession) {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, opts)
	if err := sdk.AddSendingCustomMethod[*taskParams, *taskResult](client, "tasks/get"); err != nil {
		t.Fatal(err)
	}
	s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: header}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return client, s
}

type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

type taskResult struct {
	sdk.ResultBase
	ResultType string              `json:"resultType"`
	TaskID     string              `json:"taskId"`
	Status     string              `json:"status"`
	Requests   sdk.InputRequestMap `json:"inputRequests"`
	Result     *sdk.CallToolResult `json:"result"`
}

func bearer(token string) withHeader { return withHeader{"Authorization": "Bearer " + token} }

func text(t *testing.T, res *sdk.CallToolResult) string {
	t.Helper()
	if len(res.Content) == 0 {
		t.Fatal("no content")
	}
	c, ok := res.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("the first block is %T", res.Content[0])
	}
	return c.Text
}

func call(t *testing.T, s *sdk.ClientSession, name string, args any) *sdk.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// Two gateways behind a round-robin proxy serve one client.
func TestTwoGateways(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 2, mcp.Config{Wait: bustest.Timeout})
	_, alice := dial(t, url, bearer(aliceToken), nil)
	_, bob := dial(t, url, bearer(bobToken), nil)
	list, err := alice.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*sdk.Tool{}
	for _, tool := range list.Tools {
		known[tool.Name] = tool
	}
	if a := known["echo"]; a == nil || !a.Annotations.IdempotentHint {
		t.Errorf("echo: %+v", a)
	}
	if a := known["slow"]; a == nil || a.Annotations.IdempotentHint || !*a.Annotations.DestructiveHint {
		t.Errorf("slow: %+v", a)
	}
	if a := known[offload.ToolGrep]; a == nil || !a.Annotations.ReadOnlyHint {
		t.Errorf("grep_knowledge: %+v", a)
	}
	for range 4 {
		if got := text(t, call(t, alice, "echo", map[string]any{"text": "hi"})); got != "hi" {
			t.Errorf("echo: %q", got)
		}
	}
	if res := call(t, alice, "image", nil); len(res.Content) != 2 || base64.StdEncoding.EncodeToString(res.Content[1].(*sdk.ImageContent).Data) != onePixel {
		t.Errorf("image: %v", res.Content)
	}
	res := call(t, alice, "nonsense", nil)
	if !res.IsError || !strings.Contains(text(t, res), "No worker offers the tool") {
		t.Errorf("unknown tool: %q", text(t, res))
	}
	if res := call(t, alice, "echo", map[string]any{"other": 1}); !res.IsError || !strings.Contains(text(t, res), "arguments of echo") {
		t.Errorf("wrong arguments: %q", text(t, res))
	}

	// An artifact: every byte through the link, and only for its session.
	res = call(t, alice, "big", nil)
	link := res.Content[1].(*sdk.ResourceLink)
	var all strings.Builder
	for uri := link.URI; uri != ""; {
		page, err := alice.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(page.Contents[0].Text)
		uri, _ = page.Contents[0].Meta["stevedore/next"].(string)
	}
	if all.String() != bigText {
		t.Errorf("read %d bytes, want %d", all.Len(), len(bigText))
	}
	if _, err := bob.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link.URI}); err == nil {
		t.Error("bob read an artifact of alice")
	}
	if got := text(t, call(t, bob, offload.ToolGet, map[string]any{"artifact_id": link.Name})); strings.Contains(got, "a line") {
		t.Error("bob read an artifact of alice with a tool")
	}
	resources, err := alice.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 1 || resources.Resources[0].URI != link.URI {
		t.Errorf("resources of alice: %v %v", resources, err)
	}
	offloader := offload.NewOffloader(c.store, offload.Config{})
	for i := range 210 {
		id := fmt.Sprint("artifact-", i)
		if _, err := offloader.Attach(t.Context(), tools.Call{ID: id, Session: "alice"}, io.NewSectionReader(strings.NewReader(id), 0, int64(len(id)))); err != nil {
			t.Fatal(err)
		}
	}
	listed := map[string]bool{}
	for r, err := range alice.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		listed[r.URI] = true
	}
	if len(listed) != 211 {
		t.Errorf("%d of 211 artifacts are listed", len(listed))
	}
	if _, err := alice.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: "-1"}); err == nil || !strings.Contains(err.Error(), "is not a cursor") {
		t.Errorf("a wrong cursor: %v", err)
	}
	if resources, err := bob.ListResources(t.Context(), nil); err != nil || len(resources.Resources) != 0 {
		t.Errorf("resources of bob: %v %v", resources, err)
	}

	// A client without tasks gets an id, and the result later.
	_, hurried := dial(t, gateways(t, c, 2, mcp.Config{Wait: 2 * time.Second}), bearer(aliceToken), nil)
	res = call(t, hurried, "slow", nil)
	_, rest, _ := strings.Cut(text(t, res), "Its id is ")
	id, _, _ := strings.Cut(rest, ".")
	if got := text(t, call(t, hurried, "get_task_result", map[string]any{"call_id": id})); !strings.Contains(got, "still running") {
		t.Errorf("get_task_result of a running call: %q", got)
	}
	if res := call(t, bob, "get_task_result", map[string]any{"call_id": id}); !res.IsError {
		t.Errorf("bob sees the task of alice: %q", text(t, res))
	}
	close(c.release)
	if got := text(t, call(t, alice, "get_task_result", map[string]any{"call_id": id})); got != "slow done" {
		t.Errorf("get_task_result: %q", got)
	}
}

// A client with tasks gets a task; any gateway knows it.
func TestTasks(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 2, mcp.Config{TaskAfter: 500 * time.Millisecond})
	caps := &sdk.ClientCapabilities{}
	caps.AddExtension("io.modelcontextprotocol/tasks", map[string]any{})
	var created taskResult
	client, alice := dial(t, url, bearer(aliceToken), &sdk.ClientOptions{Capabilities: caps})
	_ = client
	created = rawCall(t, url, "slow", nil)
	if created.TaskID == "" || created.Status != "working" {
		t.Fatalf("created: %+v", created)
	}
	get := func() *taskResult {
		res, err := sdk.CallCustomMethod[*taskParams, *taskResult](t.Context(), alice, "tasks/get", &taskParams{TaskID: created.TaskID})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for range 2 { // both gateways
		if got := get(); got.Status != "working" || got.TaskID != created.TaskID {
			t.Errorf("working: %+v", got)
		}
	}
	close(c.release)
	got := get()
	for got.Status == "working" {
		time.Sleep(time.Millisecond)
		got = get()
	}
	if got.Status != "completed" || text(t, got.Result) != "slow done" {
		t.Errorf("completed: %+v", got)
	}
	if c.runs.Load() != 1 {
		t.Errorf("slow ran %d times", c.runs.Load())
	}
	if _, err := sdk.CallCustomMethod[*taskParams, *taskResult](t.Context(), alice, "tasks/get", &taskParams{TaskID: "nonsense"}); err == nil {
		t.Error("a task that does not exist was found")
	}
	// The same call id again: the stored result, and no second run.
	again := rawCall(t, url, "slow", map[string]any{mcp.CallIDMeta: created.TaskID})
	if c.runs.Load() != 1 || again.Status != "" || again.ResultType != "complete" {
		t.Errorf("repeated call: %d runs, %+v", c.runs.Load(), again)
	}
}

// A task exists when the client gets its id, even if the server takes longer to store the
// call than the client waits for a result.
func TestTaskOfASlowServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 1, mcp.Config{TaskAfter: time.Nanosecond})
	_, alice := dial(t, url, bearer(aliceToken), nil)
	created := rawCall(t, url, "slow", nil)
	if created.TaskID == "" || created.Status != "working" {
		t.Fatalf("created: %+v", created)
	}
	got, err := sdk.CallCustomMethod[*taskParams, *taskResult](t.Context(), alice, "tasks/get", &taskParams{TaskID: created.TaskID})
	if err != nil || got.Status != "working" {
		t.Errorf("the task is %+v: %v", got, err)
	}
	close(c.release)
}

// rawCall sends tools/call with the capability for tasks.
func rawCall(t *testing.T, url, tool string, meta map[string]any) (out taskResult) {
	t.Helper()
	all := map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "raw", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}},
	}
	maps.Copy(all, meta)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": map[string]any{}, "_meta": all}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + aliceToken,
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var buf strings.Builder
	if _, err := io.Copy(&buf, res.Body); err != nil {
		t.Fatal(err)
	}
	data := buf.String()
	if _, event, ok := strings.Cut(data, "data: "); ok {
		data, _, _ = strings.Cut(event, "\n")
	}
	var msg struct {
		Result taskResult
		Error  any
	}
	if err := json.Unmarshal([]byte(data), &msg); err != nil || msg.Error != nil {
		t.Fatalf("%d %s: %v", res.StatusCode, data, err)
	}
	return msg.Result
}

// The trace of a request reaches the events of its call.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 1, mcp.Config{})
	sub := bustest.Subscribe(t, c.Bus, c.Result("alice", "*"))
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for header, want := range map[string]bool{"00-" + trace + "-b7ad6b7169203331-01": true, "00-" + trace: false} {
		rawCall(t, url, "echo", map[string]any{"traceparent": header})
		msg, err := sub.NextMsg(bustest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		if got := msg.Header["traceparent"]; strings.Contains(strings.Join(got, ""), trace) != want {
			t.Errorf("%s: the result has the trace %q", header, got)
		}
	}
}

// Progress reaches the client, and a cancelled request cancels the call.
func TestProgressAndCancel(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 1, mcp.Config{})
	progress := make(chan *sdk.ProgressNotificationParams, 100)
	_, alice := dial(t, url, bearer(aliceToken), &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		select {
		case progress <- r.Params:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		params := &sdk.CallToolParams{Name: "slow"}
		params.SetProgressToken("p1")
		_, err := alice.CallTool(ctx, params)
		ended <- err
	}()
	if p := <-progress; p.Message != "half" || p.Total != 2 {
		t.Errorf("progress: %+v", p)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the cancelled call succeeded")
	}
	// The call ends although nobody releases it.
	bustest.WaitUntil(t, "the cancelled call", func() bool { return cancelled(t, c, "alice") == 1 })
}

// Clients that come at the same time wait for one request to the workers, and a client
// that gives up does not end it.
func TestManyClientsAskOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	requests, err := c.Conn().SubscribeSync(c.RPC("offer"))
	if err == nil {
		err = c.Conn().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	g := mcp.New(c.Bus, mcp.Config{Refresh: time.Hour})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Server(gone, "gone"); err == nil {
		t.Error("a client that is gone got an answer")
	}
	const clients = 100
	failed := make(chan error, clients)
	for i := range clients {
		go func() {
			_, err := g.Server(t.Context(), fmt.Sprint("session", i))
			failed <- err
		}()
	}
	for range clients {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n, _, err := requests.Pending(); n != 1 || err != nil {
		t.Errorf("%d requests to the workers, %v", n, err)
	}
}

// Requests without a token, with a wrong one, or from other pages are refused.
func TestHTTPGuard(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	url := gateways(t, c, 1, mcp.Config{})
	for name, header := range map[string]withHeader{
		"no token": {}, "wrong token": bearer("alice-0123456789abcdeg"),
		"another origin": {"Authorization": "Bearer " + aliceToken, "Origin": "https://evil.example"},
	} {
		client := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
		s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: header}, MaxRetries: -1}, nil)
		if err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	// One token, two conversations.
	_, one := dial(t, url, withHeader{"Authorization": "Bearer " + aliceToken, mcp.SessionHeader: "one"}, nil)
	_, two := dial(t, url, withHeader{"Authorization": "Bearer " + aliceToken, mcp.SessionHeader: "the 2nd one."}, nil) // no token
	link := call(t, one, "big", nil).Content[1].(*sdk.ResourceLink)
	if _, err := two.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link.URI}); err == nil {
		t.Error("another conversation read the artifact")
	}
	for name, s := range map[string]*sdk.ClientSession{"one": one, "two": two} {
		link := call(t, s, "big", nil).Content[1].(*sdk.ResourceLink)
		if _, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: link.URI}); err != nil {
			t.Errorf("conversation %s: %v", name, err)
		}
		if list, err := s.ListResources(t.Context(), nil); err != nil || len(list.Resources) == 0 {
			t.Errorf("conversation %s has the resources %+v, %v", name, list, err)
		}
		if res := call(t, s, "get_task_result", map[string]any{"call_id": link.Name}); res.IsError {
			t.Errorf("conversation %s: %s", name, text(t, res))
		}
	}
}
