package wrap

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
)

// serveHTTP wraps servers in a role and serves them over HTTP. The header Identity says
// who sends a request.
func serveHTTP(t *testing.T, role string) (url, dir string) {
	t.Helper()
	h, dir := newHandler(t, role)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(h.Close)
	return srv.URL, dir
}

func newHandler(t *testing.T, role string, more ...func(*Config)) (h *Handler, dir string) {
	t.Helper()
	store, err := disk.Open(t.TempDir(), offload.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	h = NewHandler(HandlerConfig{
		Identity: func(r *http.Request) (string, string) { return r.Header.Get("Identity"), r.Header.Get("Identity") },
		Proxy: func(identity string) Config {
			cfg := Config{Name: "test server", Session: identity, Store: store, Log: zerolog.New(zerolog.NewTestWriter(t)), Server: startProgram(role, dir)}
			for _, set := range more {
				set(&cfg)
			}
			return cfg
		},
	})
	t.Cleanup(func() { h.Close(); store.Close() })
	return h, dir
}

type asIdentity string

func (i asIdentity) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Identity", string(i))
	return http.DefaultClient.Transport.RoundTrip(r)
}

// dialHTTP connects a client in a revision of the protocol; "" is the latest one.
func dialHTTP(t *testing.T, url, identity, version string) *session {
	t.Helper()
	s := &session{notes: make(chan *mcp.ProgressNotificationParams, 1000)}
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "yes"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { s.notes <- r.Params },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changes++
		},
	})
	var opts *mcp.ClientSessionOptions
	if version != "" {
		opts = &mcp.ClientSessionOptions{ProtocolVersion: version}
	}
	var err error
	s.ClientSession, err = client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: asIdentity(identity)}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A wrapped server over HTTP does the same as over stdio, in revisions with and without
// sessions. Clients with the same token may use the same ids.
func TestHandler(t *testing.T) {
	t.Parallel()
	url, _ := serveHTTP(t, "sdk")
	for _, version := range []string{"", "2025-06-18"} {
		t.Run("revision "+version, func(t *testing.T) {
			var clients sync.WaitGroup
			for n := range 3 {
				s := dialHTTP(t, url, "alice", version)
				clients.Go(func() {
					for i := range 20 {
						want := fmt.Sprint(n, " ", i)
						res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": want}})
						if err != nil || texts(res) != want {
							t.Errorf("%v %v, want %s", res, err, want)
						}
					}
				})
			}
			clients.Wait()
			s := dialHTTP(t, url, "alice", version)
			res := s.call(t, "big", map[string]any{"lines": 3000})
			if s.linked(t, res) != bigText(3000) {
				t.Error("the artifact differs")
			}
			link := res.Content[1].(*mcp.ResourceLink).URI
			bob := dialHTTP(t, url, "bob", version)
			if _, err := bob.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link}); err == nil {
				t.Error("another identity reads the artifact")
			}
			params := &mcp.CallToolParams{Name: "count"}
			params.SetProgressToken("same token")
			if res, err := s.CallTool(t.Context(), params); err != nil || texts(res) != "counted" {
				t.Fatal(res, err)
			}
			if note := <-s.notes; note.ProgressToken != "same token" || note.Progress != 1 {
				t.Errorf("progress: %+v", note)
			}
			if version != "" {
				if got := texts(s.call(t, "ask", nil)); got != "accept yes" {
					t.Errorf("elicitation: %q", got)
				}
			}
			s.call(t, "grow", nil)
			s.await(t, "list_changed", func() bool { return s.changes > 0 })
		})
	}
}

// A client that cancels ends the call on the server, with and without sessions.
func TestHandlerCancels(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "2025-06-18"} {
		url, dir := serveHTTP(t, "sdk")
		s := dialHTTP(t, url, "alice", version)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for !exists(dir, "waiting") {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "wait"}); err == nil {
			t.Error("the call was not cancelled")
		}
		s.await(t, "cancellation on the server", func() bool { return exists(dir, "cancelled") })
	}
}

// Requests that make no sense get an answer that says why.
func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	url, _ := serveHTTP(t, "sdk")
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	deep := `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}}"
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	for _, tt := range []struct {
		method, body string
		header       map[string]string
		status       int
		want         string
	}{
		{"POST", initialize, map[string]string{"Identity": ""}, 403, "not valid"},
		{"POST", initialize, map[string]string{"Content-Type": "text/plain"}, 415, "application/json"},
		{"POST", `{"jsonrpc":`, nil, 400, `"id":null,"error":{"code":-32700`},
		{"POST", deep, nil, 400, `"id":5,"error":{"code":-32700`},
		{"POST", strings.Repeat(" ", wire.MaxMessage+1), nil, 413, "too large"},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil, 400, "Mcp-Session-Id is missing"},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"Mcp-Session-Id": "x"}, 404, "does not exist"},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, map[string]string{"Mcp-Session-Id": "identity alice"}, 404, "does not exist"},
		{"POST", modern, map[string]string{"Mcp-Protocol-Version": "2026-07-28"}, 400, "Mcp-Method is missing"},
		{"POST", modern, map[string]string{"Mcp-Method": "tools/list"}, 400, "MCP-Protocol-Version is missing"},
		{"GET", "", nil, 405, "no stream"},
		{"GET", "", map[string]string{"Mcp-Session-Id": "x"}, 404, "does not exist"},
		{"PUT", "", nil, 405, "want GET"},
		{"POST", initialize, nil, 200, `"protocolVersion"`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Identity", "alice")
		r.Header.Set("Content-Type", "application/json")
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != tt.status || !strings.Contains(string(body), tt.want) {
			t.Errorf("%s %.100s %v: %d %.200s; want %d %s", tt.method, tt.body, tt.header, res.StatusCode, body, tt.status, tt.want)
		}
	}
}

// A shared session whose server takes long to end does not keep a client waiting: the next
// request gets a new one.
func TestEndingSessionIsReplaced(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, "stubborn")
	first, err := h.open("identity a", "a", "a", true)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	second, err := h.open("identity a", "a", "a", true)
	if err != nil || second == first {
		t.Errorf("the session that ends is offered again; %v", err)
	}
	third, err := h.open("identity a", "a", "a", true)
	if err != nil || third != second {
		t.Errorf("a third session is opened; %v", err)
	}
}

// A session that the client ended does not exist any more, although its server takes long to
// end.
func TestRequestAfterTheEndOfASession(t *testing.T) {
	t.Parallel()
	h, _ := newHandler(t, "stubborn")
	if _, err := h.open("key", "alice", "alice", false); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, body string
		status       int
	}{
		{"DELETE", "", 204},
		{"POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 404},
		{"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 404},
		{"GET", "", 404},
		{"DELETE", "", 404},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), tt.method, "/", strings.NewReader(tt.body))
		for name, value := range map[string]string{"Identity": "alice", "Content-Type": "application/json", "Mcp-Session-Id": "key"} {
			r.Header.Set(name, value)
		}
		if h.ServeHTTP(w, r); w.Code != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.body, w.Code, w.Body, tt.status)
		}
	}
}

// A client that comes back in another session waits for its call in the background, and ends it.
// A client with another identity does not find the call. If the session of the call has ended, the
// proxy tells the client so.
func TestBackgroundOverHTTP(t *testing.T) {
	t.Parallel()
	h, dir := newHandler(t, "sdk", func(cfg *Config) { cfg.BackgroundAfter = 20 * time.Millisecond })
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	dial := func(identity string) *session {
		s := dialHTTP(t, srv.URL, identity, "2025-06-18")
		s.dir = dir
		return s
	}
	first, second := dial("alice"), dial("alice")
	id, waiting, ended := first.inBackground(t, "slow", map[string]any{"lines": 3}), first.inBackground(t, "wait", nil), first.inBackground(t, "wait", nil)
	checkContains(t, second.read(t, map[string]any{"id": id}), "The call still runs (")
	checkContains(t, dial("mallory").read(t, map[string]any{"id": waiting, "cancel": true}), "there is no artifact")
	checkContains(t, second.read(t, map[string]any{"id": waiting}), "The call still runs (")
	checkContains(t, second.read(t, map[string]any{"id": waiting, "cancel": true}), "wait was cancelled")
	goOn(t, first)
	second.await(t, "the result", func() bool { return strings.Contains(second.read(t, map[string]any{"id": id}), "\"line\" 2") })
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second.await(t, "the end", func() bool {
		return strings.Contains(second.read(t, map[string]any{"id": ended}), "wait ended with the session of its call. It may have acted")
	})
}
