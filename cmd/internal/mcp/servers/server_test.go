package servers_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/servers"
	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

const roleEnv = "STEVEDORE_TOOLS_MCP_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role == "defective" {
		serveDefective()
	} else if role != "" {
		s := newServer()
		switch role {
		case "many":
			for i := range 2100 {
				s.AddTool(&sdk.Tool{Name: fmt.Sprint("tool", i), InputSchema: &jsonschema.Schema{Type: "object"}}, nil)
			}
		case "endless": // each page of its tools is the first one
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					if page, ok := r.(*sdk.ListToolsRequest); ok && page.Params != nil {
						page.Params.Cursor = ""
					}
					res, err := next(ctx, method, r)
					if list, ok := res.(*sdk.ListToolsResult); ok {
						list.NextCursor = "again"
					}
					return res, err
				}
			})
		case "empty": // its list of tools has no tools and no end
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					if method == "tools/list" {
						return &sdk.ListToolsResult{Tools: []*sdk.Tool{}, NextCursor: "more"}, nil
					}
					return next(ctx, method, r)
				}
			})
		case "restless": // has another tool in each list, and is slow to notice who subscribes to changes
			lists := 0
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					if method == "subscriptions/listen" {
						time.Sleep(300 * time.Millisecond)
					}
					res, err := next(ctx, method, r)
					if method == "tools/list" {
						lists++
						s.AddTool(&sdk.Tool{Name: fmt.Sprint("tool", lists), InputSchema: &jsonschema.Schema{Type: "object"}}, nil)
					}
					return res, err
				}
			})
		case "picky": // refuses to list its tools twice
			refused := 0
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					if refused++; method == "tools/list" && refused <= 4 {
						return nil, errors.New("not now")
					}
					return next(ctx, method, r)
				}
			})
		case "slow":
			time.Sleep(500 * time.Millisecond)
		}
		if f, err := os.OpenFile("starts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprint(f, "x")
			f.Close()
		}
		_ = s.Run(context.Background(), &sdk.StdioTransport{})
		return
	}
	os.Setenv("STEVEDORE_SECRET", "must not leak") // to the servers
	os.Exit(slow.RunWaiting(m))
}

// newServer is another MCP server.
func newServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "other"}, nil)
	add := func(name string, a *sdk.ToolAnnotations, f func(args map[string]any) *sdk.CallToolResult) {
		s.AddTool(&sdk.Tool{Name: name, Annotations: a, InputSchema: &jsonschema.Schema{Type: "object"}}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			args := map[string]any{}
			_ = json.Unmarshal(r.Params.Arguments, &args)
			return f(args), nil
		})
	}
	text := func(t string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: t}}}
	}
	add("echo", &sdk.ToolAnnotations{ReadOnlyHint: true}, func(args map[string]any) *sdk.CallToolResult { return text(fmt.Sprint(args["text"])) })
	add("act.on it", nil, func(map[string]any) *sdk.CallToolResult { return text("acted") })
	add("secret", nil, func(map[string]any) *sdk.CallToolResult {
		return text(os.Getenv("OTHER_TOKEN") + " " + os.Getenv("STEVEDORE_SECRET"))
	})
	add("huge", nil, func(map[string]any) *sdk.CallToolResult { return text(strings.Repeat("0123456789abcde\n", 2<<20)) })
	add("mixed", nil, func(map[string]any) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "first"}, &sdk.TextContent{Text: strings.Repeat("é", 1<<20)}, &sdk.ImageContent{Data: []byte("hi"), MIMEType: "image/png"},
		}}
	})
	add("file", nil, func(args map[string]any) *sdk.CallToolResult {
		about, _ := args["about"].(string)
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "a file" + about}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:y", Blob: bytes.Repeat([]byte("data"), 1<<20)}},
		}}
	})
	add("rows", nil, func(map[string]any) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: map[string]any{"rows": strings.Repeat("row", 1<<20)}}
	})
	add("data", nil, func(args map[string]any) *sdk.CallToolResult {
		res := &sdk.CallToolResult{Content: []sdk.Content{}, StructuredContent: json.RawMessage(args["data"].(string))}
		for _, t := range args["texts"].([]any) {
			res.Content = append(res.Content, &sdk.TextContent{Text: t.(string)})
		}
		return res
	})
	add("image", nil, func(map[string]any) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "see"}, &sdk.ImageContent{Data: []byte("hi"), MIMEType: "image/png"}}}
	})
	add("fail", nil, func(map[string]any) *sdk.CallToolResult { r := text("it failed"); r.IsError = true; return r })
	crash := func(map[string]any) *sdk.CallToolResult {
		if f, err := os.OpenFile("crashes", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprint(f, "x")
			f.Close()
		}
		if data, _ := os.ReadFile("crashes"); len(data) == 1 {
			os.Exit(7)
		}
		return text("survived")
	}
	add("crash", nil, crash)
	add("crash_safely", &sdk.ToolAnnotations{IdempotentHint: true}, crash)
	add("grow", nil, func(map[string]any) *sdk.CallToolResult {
		add := &sdk.Tool{Name: "grown", InputSchema: &jsonschema.Schema{Type: "object"}}
		s.AddTool(add, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("grown"), nil })
		return text("ok")
	})
	return s
}

// run runs a server and returns its current tools, in a registry.
func run(t *testing.T, cfg servers.Config) (*tools.Registry, chan []tools.Tool) {
	t.Helper()
	registry := tools.NewRegistry(zerolog.Nop())
	lists := make(chan []tools.Tool, 100)
	var registered []string
	cfg.Changed = func(list []tools.Tool) {
		var err error
		if registered, err = registry.Replace(registered, list...); err != nil {
			t.Error(err)
		}
		lists <- list
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- servers.New(cfg).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(2 * time.Minute):
			t.Error("Run does not end")
		}
	})
	return registry, lists
}

func program(t *testing.T) servers.Config {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return servers.Config{Name: "other", Argv: []string{exe}, Dir: t.TempDir(), Env: []string{roleEnv + "=1", "OTHER_TOKEN=token-1234"}}
}

func call(t *testing.T, r *tools.Registry, name, args string) *tools.Result {
	t.Helper()
	res := r.Run(t.Context(), tools.Call{ID: "1", Session: "s", Tool: name, Args: json.RawMessage(args)}, nil)
	t.Cleanup(func() { res.Close() })
	return res
}

func text(t *testing.T, res *tools.Result) string {
	t.Helper()
	if res.Output == nil {
		return res.ForLLM
	}
	s, ok, err := res.Output.Text(1 << 30)
	if !ok || err != nil {
		t.Fatal(err)
	}
	return s
}

func TestToolsOfAProgram(t *testing.T) {
	t.Parallel()
	r, lists := run(t, program(t))
	<-lists
	if def, ok := r.Definition("other_echo"); !ok || def.Effect != tools.Idempotent || !def.AcceptsArtifacts {
		t.Errorf("echo: %v %+v", ok, def)
	}
	found := ""
	for _, def := range r.Definitions() {
		if strings.HasPrefix(def.Name, "other_act_on_it_") {
			found = def.Name
			if def.Effect != tools.Once {
				t.Errorf("%s: effect %s", def.Name, def.Effect)
			}
		}
	}
	if got := text(t, call(t, r, found, "{}")); got != "acted" {
		t.Errorf("%s: %q", found, got)
	}
	if got := text(t, call(t, r, "other_echo", `{"text":"hi"}`)); got != "hi" {
		t.Errorf("echo: %q", got)
	}
	if got := text(t, call(t, r, "other_secret", `{}`)); got != "token-1234 " {
		t.Errorf("environment: %q", got)
	}
	if slow.Run() {
		if got := text(t, call(t, r, "other_huge", `{}`)); len(got) != 32<<20 {
			t.Errorf("huge: %d bytes", len(got))
		}
	}
	file := call(t, r, "other_file", `{}`)
	if got := text(t, file); got != strings.Repeat("data", 1<<20)+"\na file" || file.Output.Written() != 4<<20 { // the note is not stored
		t.Errorf("file: %d bytes, of which %d are content", len(got), file.Output.Written())
	}
	about := strings.Repeat("x", 10_000) // a model would get such a note whole
	file = call(t, r, "other_file", `{"about":"`+about+`"}`)
	if got := text(t, file); !strings.HasPrefix(got, "a file"+about+"\ndata") || file.Output.Written() != int64(len(got)) {
		t.Errorf("file with a long text: %d bytes, of which %d are content", len(got), file.Output.Written())
	}
	if got := text(t, call(t, r, "other_rows", `{}`)); got != `{"rows":"`+strings.Repeat("row", 1<<20)+`"}` {
		t.Errorf("structured content: %d bytes %.100s", len(got), got)
	}
	for _, row := range []struct{ args, want string }{
		{`{"data":"{\"z\":9007199254740993,\"a\":1.0}","texts":[]}`, `{"z":9007199254740993,"a":1.0}`}, // as it is
		{`{"data":"{\"result\":[]}","texts":[]}`, `{"result":[]}`},
		{`{"data":"{\"rows\":[7,8]}","texts":["2 rows"]}`, `{"rows":[7,8]}` + "\n2 rows"}, // the text has not all of it
		{`{"data":"{\"rows\":[7,8]}","texts":["{\"rows\": [7, 8]}"]}`, `{"rows": [7, 8]}`},
		{`{"data":"{\"result\":\"caf\u00e9\"}","texts":["café"]}`, "café"},
		{`{"data":"{\"result\":[\"a\",{\"b\":1}]}","texts":["a","{\n\"b\": 1}"]}`, "a\n{\n\"b\": 1}"},
		{`{"data":"null","texts":["a"]}`, "a"},
	} {
		if got := text(t, call(t, r, "other_data", row.args)); got != row.want {
			t.Errorf("%s: %q", row.args, got)
		}
	}
	if res := call(t, r, "other_mixed", `{}`); !bytes.Contains(res.Blocks, []byte(`"media_type":"image/png"`)) || res.ForLLM != "first\n"+strings.Repeat("é", 1<<20) || bytes.Count(res.Blocks, []byte("é")) != 1<<20 {
		t.Errorf("mixed: %d bytes, %.100s", len(res.ForLLM), res.Blocks)
	}
	res := call(t, r, "other_image", `{}`)
	if !bytes.Contains(res.Blocks, []byte(`"media_type":"image/png"`)) || res.ForLLM != "see" {
		t.Errorf("image: %q %s", res.ForLLM, res.Blocks)
	}
	if res := call(t, r, "other_fail", `{}`); !res.IsError || text(t, res) != "it failed" {
		t.Errorf("fail: %v", res)
	}
	call(t, r, "other_grow", `{}`)
	<-lists
	if got := text(t, call(t, r, "other_grown", `{}`)); got != "grown" {
		t.Errorf("a tool that was added: %q", got)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	cfg := program(t)
	r, lists := run(t, cfg)
	<-lists
	res := call(t, r, "other_crash", `{}`)
	if got := text(t, res); !res.IsError || !strings.Contains(got, "MCP server other ended while it ran crash (exit status 7") || !strings.Contains(got, "may have acted") {
		t.Errorf("crash: %q", got)
	}
	if data, _ := os.ReadFile(filepath.Join(cfg.Dir, "crashes")); len(data) != 1 {
		t.Errorf("a tool that is not idempotent ran %d times", len(data))
	}
	<-lists // it is started again
	if err := os.Remove(filepath.Join(cfg.Dir, "crashes")); err != nil {
		t.Fatal(err)
	}
	if got := text(t, call(t, r, "other_crash_safely", `{}`)); got != "survived" {
		t.Errorf("crash_safely: %q", got)
	}
	<-lists
	// The pause before the next start is over, because the list was read.
	if got := text(t, call(t, r, "other_echo", `{"text":"hi"}`)); got != "hi" {
		t.Errorf("echo after the restart: %q", got)
	}
}

func TestNoProgram(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := firstWrite{wrote: cancel}
	s := servers.New(servers.Config{
		Name: "gone", Argv: []string{filepath.Join(t.TempDir(), "no such program")}, Log: zerolog.New(&log),
		Changed: func([]tools.Tool) { t.Error("listed") },
	})
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "the MCP server gone does not start") {
		t.Errorf("log: %s", log.String())
	}
}

// A server that hangs at its start is reported long before its time is over.
func TestHangingServerIsReported(t *testing.T) {
	t.Parallel()
	quiet, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, nobody answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { quiet.Close() })
	var register trouble.Register
	s := servers.New(servers.Config{Name: "quiet", URL: "http://" + quiet.Addr().String(), Timeout: 6 * time.Second,
		Changed: func([]tools.Tool) { t.Error("listed") }})
	ctx, cancel := context.WithCancel(register.With(t.Context()))
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for range time.Tick(20 * time.Millisecond) { // the test's own deadline ends it
		if list := register.List(); len(list) == 1 && list[0].Name == "quiet" && strings.Contains(list[0].Error, "has not answered within 1s of its start") {
			return
		}
	}
}

// A list that has pages without end and without tools is a failure, which says so.
func TestListWithoutAnEnd(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	var register trouble.Register
	cfg := program(t)
	cfg.Env[0] = roleEnv + "=empty"
	cfg.Changed = func([]tools.Tool) { t.Error("listed") }
	ctx, cancel := context.WithCancel(register.With(t.Context()))
	ended := make(chan error)
	go func() { ended <- servers.New(cfg).Run(ctx) }()
	defer func() { cancel(); <-ended }()
	for range time.Tick(20 * time.Millisecond) { // the test's own deadline ends it
		if list := register.List(); len(list) == 1 && strings.Contains(list[0].Error, "its list of tools does not end") {
			return
		}
	}
}

// serveDefective serves a tool that does what the argument "do" says, and nothing beside it.
func serveDefective() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Arguments struct{ Do string } }
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := "{}"
		switch m.Method + m.Params.Arguments.Do {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"defective","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"hints","annotations":{"readOnlyHint":"true","title":5}},` +
				`{"name":7},"no tool",{"name":"odd","title":5,"icons":"x","description":["x"],"outputSchema":7,"inputSchema":{"properties":[]},"annotations":[]}]}`
		case "tools/callhang":
			select {}
		case "tools/callgarbage":
			fmt.Println("no message")
			continue
		case "tools/callodd":
			result = `{"content":[{"type":"text","text":"kept"},{"type":"text","text":"titled","title":5},{"type":"image","data":"data:image/png;base64,AAAA","mimeType":"image/png"},{"type":"novel","x":1},` +
				`{"type":"text","text":"too","annotations":{"priority":"high"}}]}`
		case "tools/callshape":
			result = `{"content":"x"}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
	os.Exit(0)
}

// A server that was started and then hangs in a call, or answers it with garbage, is reported until it answers one. One
// that hangs is started again when the call is cancelled.
func TestDefectiveCallIsReported(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{
		"garbage": "not answered a call of other_t (c1 in the session s) and has written something",
		"hang":    "(c1 in the session s) or a ping",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			defectiveCallIsReported(t, what, want)
		})
	}
}

func defectiveCallIsReported(t *testing.T, what, want string) {
	cfg := program(t)
	var log bytes.Buffer // read after the list, before another one
	cfg.Env, cfg.Timeout, cfg.Log = []string{roleEnv + "=defective"}, 2*time.Second, zerolog.New(zerolog.SyncWriter(&log))
	r, lists := run(t, cfg)
	if list := <-lists; len(list) != 3 || list[1].Definition().Effect != tools.Once || strings.Count(log.String(), "describes a tool wrongly") != 3 {
		t.Errorf("of a list with odd tools, there are %d, and the log says\n%s", len(list), &log)
	}
	var register trouble.Register
	ctx := register.With(t.Context())
	do := func(ctx context.Context, what string) *tools.Result {
		return r.Run(ctx, tools.Call{ID: "c1", Session: "s", Tool: "other_t", Args: json.RawMessage(`{"do":"` + what + `"}`)}, nil)
	}
	await := func(want string) {
		t.Helper()
		for range time.Tick(20 * time.Millisecond) { // the test's own deadline ends it
			if list := register.List(); want == "" && len(list) == 0 || len(list) == 1 && list[0].Kind == trouble.MCPCall && strings.Contains(list[0].Error, want) {
				return
			}
		}
	}
	if res := do(ctx, "shape"); !res.IsError || !strings.Contains(res.ForLLM, "not the result of a tool") || strings.Contains(res.ForLLM, "json") {
		t.Errorf("%+v", res)
	}
	await("not the result of a tool")
	if got := text(t, do(ctx, "odd")); !strings.HasPrefix(got, "kept\n") || !strings.Contains(got, "base64,AAAA") || !strings.Contains(got, "novel") || !strings.Contains(got, "titled") || !strings.Contains(got, "too") {
		t.Errorf("a result with odd blocks: %q", got)
	}
	if res := do(ctx, ""); res.IsError {
		t.Errorf("%+v", res)
	}
	await("")
	calling, cancel := context.WithCancel(ctx)
	ended := make(chan *tools.Result)
	go func() { ended <- do(calling, what) }()
	await(want)
	cancel()
	<-ended
	await("")
	answering, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if res := do(answering, ""); res.IsError {
		t.Errorf("after %s: %+v", what, res)
	}
}

func TestToolsOverHTTP(t *testing.T) {
	t.Parallel()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return newServer() }, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-token" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	r, lists := run(t, servers.Config{Name: "web", URL: srv.URL, Header: map[string]string{"Authorization": "Bearer secret-token"}})
	<-lists
	if got := text(t, call(t, r, "web_echo", `{"text":"hi"}`)); got != "hi" {
		t.Errorf("echo: %q", got)
	}
}

// A server with too many tools offers the first ones, and one that lists its tools without end each
// of them once, with one warning about all that repeat a name.
func TestTooManyTools(t *testing.T) {
	t.Parallel()
	_, lists := run(t, program(t))
	all := len(<-lists)
	for role, want := range map[string]int{"many": 2000, "endless": all} {
		cfg := program(t)
		cfg.Env[0] = roleEnv + "=" + role
		log, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Log = zerolog.New(in)
		_, lists := run(t, cfg)
		if list := <-lists; len(list) != want {
			t.Errorf("%s: %d tools, want %d", role, len(list), want)
		}
		text := make([]byte, 64<<10)
		n, err := log.Read(text)
		if repeats := strings.Count(string(text[:n]), "repeats a name"); err != nil || role == "endless" && repeats != 1 {
			t.Errorf("%s: %d warnings, %v", role, repeats, err)
		}
	}
}

// A server whose tools change all the time does not keep the worker busy.
func TestToolsThatChangeAllTheTime(t *testing.T) {
	t.Parallel()
	cfg := program(t)
	cfg.Env[0] = roleEnv + "=restless"
	_, lists := run(t, cfg)
	first, second := <-lists, <-lists
	if len(second) <= len(first) {
		t.Errorf("%d tools, then %d", len(first), len(second))
	}
	time.Sleep(time.Second)
	if n := len(lists); n > 10 {
		t.Errorf("%d more lists in a second", n)
	}
}

// A server that refuses to list its tools is asked again, and is not restarted.
func TestListRefused(t *testing.T) {
	t.Parallel()
	cfg := program(t)
	cfg.Env[0] = roleEnv + "=picky"
	_, lists := run(t, cfg)
	<-lists
	if starts, err := os.ReadFile(filepath.Join(cfg.Dir, "starts")); err != nil || len(starts) != 1 {
		t.Errorf("%d starts %v", len(starts), err)
	}
}

// firstWrite is a log that says when it was written.
type firstWrite struct {
	bytes.Buffer
	wrote func()
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.wrote()
	return f.Buffer.Write(p)
}

// A refused credential is an error that names the setting.
func TestRefusedCredential(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "wrong "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := firstWrite{wrote: cancel}
	s := servers.New(servers.Config{Name: "web", URL: srv.URL, Header: map[string]string{"Authorization": "secret-token"}, Credential: "--mcp-header web.Authorization", Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "401 Unauthorized: wrong xxxxx; check the credential, which --mcp-header web.Authorization sets") || strings.Contains(log.String(), "secret-token") {
		t.Errorf("%s", log.String())
	}
}
