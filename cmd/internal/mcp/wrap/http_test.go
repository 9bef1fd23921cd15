package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// A server at a URL: with sessions and streams, without sessions, and with plain JSON.
func TestServerAtURL(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*mcp.StreamableHTTPOptions{
		"sessions": nil, "stateless": {Stateless: true}, "JSON": {Stateless: true, JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdkServer() }, opts)
			var refused atomic.Bool
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" {
					refused.Store(true)
					http.Error(w, "no", http.StatusUnauthorized)
					return
				}
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(srv.Close)
			s := wrapServer(t, "", func(cfg *Config) {
				cfg.Server = func(context.Context) (Link, error) {
					return NewHTTP(srv.URL, http.Header{"Authorization": {"Bearer secret"}}, "--header"), nil
				}
			})
			if got := texts(s.call(t, "echo", map[string]any{"text": "hello"})); got != "hello" {
				t.Errorf("echo: %q", got)
			}
			for _, lines := range []int{3000, 60_000} {
				res := s.call(t, "big", map[string]any{"lines": lines})
				checkContains(t, texts(res), "stored as the artifact")
				if lines == 3000 && s.linked(t, res) != bigText(lines) {
					t.Error("the artifact differs")
				}
			}
			if refused.Load() {
				t.Error("a request had no token")
			}
		})
	}
}

// A server that refuses the client, or that does not exist, is named in a clear error
// without the secrets of the URL.
func TestServerAtURLFails(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a token is required", http.StatusUnauthorized)
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	fails := func(t *testing.T, url, want string) {
		h := NewHTTP(url, nil, "--header")
		m := wire.Request("1", "initialize", map[string]any{})
		if err := h.Send(m); err != nil {
			t.Fatal(err)
		}
		_, err := h.Receive()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v; want %q", err, want)
		}
		if failed, ok := errors.AsType[*RequestError](err); !ok || failed.ID != "1" {
			t.Errorf("%v ends the link", err)
		}
		h.Close()
	}
	fails(t, srv.URL, "401 Unauthorized: a token is required; it wants a credential; set it with --header")
	synctest.Test(t, func(t *testing.T) { fails(t, gone.URL+"/?key=secret", "connection refused") }) // it asks again for seconds
}

// A server may end the stream of a request and send the response when the client asks
// for the rest of the stream.
func TestResumedStream(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			io.WriteString(w, "id: e1\nretry: 10\ndata: \n\n")
			return
		}
		if r.Header.Get("Last-Event-ID") != "e1" {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		io.WriteString(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
	}))
	defer srv.Close()
	h := NewHTTP(srv.URL, nil, "--header")
	defer h.Close()
	if err := h.Send(wire.Request("1", "ping", nil)); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Receive(); err != nil || got.ID != "1" {
		t.Errorf("%v %v", got, err)
	}
}

// A server that has begun a call may act, also if nobody can connect to it when the client asks for the rest of the stream:
// the call is not sent again, and nobody says that it was not run.
func TestResumeFindsNoServer(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	srv := httptest.NewUnstartedServer(nil)
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		srv.Listener.Close()
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: e1\nretry: 10\ndata: \n\n")
	})
	srv.Start()
	defer srv.Close()
	h := NewHTTP(srv.URL, nil, "--header")
	defer h.Close()
	if err := h.Send(wire.Request("1", "tools/call", fields{"name": "act"})); err != nil {
		t.Fatal(err)
	}
	_, err := h.Receive()
	if failed, ok := errors.AsType[*RequestError](err); !ok || failed.ID != "1" || failed.Delivery != Unknown || calls.Load() != 1 {
		t.Errorf("%d calls, then %#v", calls.Load(), err)
	}
}

// A server, or a proxy before it, that cannot open the stream of what belongs to no request now is asked again: without it, nobody
// hears of changes of its tools. One that has no such stream is asked once.
func TestStreamOfTheServerIsOpenedLater(t *testing.T) {
	t.Parallel()
	open := func(refusal int, refusals int64) (h *HTTP, asked *atomic.Int64) {
		asked = new(atomic.Int64)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				w.WriteHeader(http.StatusAccepted)
			case asked.Add(1) <= refusals:
				w.WriteHeader(refusal)
			default:
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		}))
		t.Cleanup(srv.Close)
		h = NewHTTP(srv.URL, nil, "--header")
		t.Cleanup(func() { h.Close() })
		if err := h.Send(wire.Request("", "notifications/initialized", nil)); err != nil {
			t.Fatal(err)
		}
		return h, asked
	}
	without, asked := open(http.StatusMethodNotAllowed, 1)
	busy, _ := open(http.StatusServiceUnavailable, 2) // two pauses are longer than the one after which the other would be asked again
	select {
	case r := <-busy.in:
		if r.m == nil || r.m.Method != "notifications/tools/list_changed" {
			t.Errorf("%+v", r)
		}
	case <-time.After(time.Minute):
		t.Error("a server that is busy is not asked again")
	}
	if n := asked.Load(); n != 1 || len(without.in) > 0 {
		t.Errorf("a server without such a stream was asked %d times", n)
	}
}

// A server that was started again has forgotten the session, and may have other tools: the link ends, so that the next one lists
// them, also if nobody sends a request.
func TestForgottenSessionEndsTheLink(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.Header().Set("Mcp-Session-Id", "s")
			w.WriteHeader(http.StatusAccepted)
		case asked.Add(1) == 1:
			w.Header().Set("Content-Type", "text/event-stream") // its stream ends with its process
		default:
			http.Error(w, "unknown session", http.StatusNotFound)
		}
	}))
	defer srv.Close()
	h := NewHTTP(srv.URL, nil, "--header")
	defer h.Close()
	for _, m := range []*wire.Message{wire.Request("1", "initialize", fields{}), wire.Request("", "notifications/initialized", nil)} {
		if err := h.Send(m); err != nil {
			t.Fatal(err)
		}
		if m.IsRequest() {
			_, _ = h.Receive() // the answer has no body
		}
	}
	select {
	case <-h.ctx.Done():
		if _, err := h.Receive(); err == nil || !strings.Contains(err.Error(), "forgotten the session") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Errorf("after %d requests for the stream, the link goes on", asked.Load())
	}
}

// rpc answers the requests of a session over HTTP with what call returns for a tool.
func rpc(t *testing.T, call func(w http.ResponseWriter, tool, id string)) *session {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			http.Error(w, "no", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		result := `{}`
		switch m.Method {
		case "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
			return
		case "initialize":
			w.Header().Set("Mcp-Session-Id", "s")
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"once","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			call(w, m.Params.Name, string(m.ID))
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(srv.Close)
	s := wrapServer(t, "", func(cfg *Config) {
		cfg.Server = func(context.Context) (Link, error) {
			return NewHTTP(srv.URL, http.Header{"Authorization": {"x"}}, "--header"), nil
		}
	})
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// A request that fails over HTTP leaves the others alone. Its error says what became of
// it, and it is sent again only if the server cannot have acted or the tool allows it.
func TestOneRequestFails(t *testing.T) {
	t.Parallel()
	var calls, sessions atomic.Int64
	release := make(chan struct{})
	s := rpc(t, func(w http.ResponseWriter, tool, id string) {
		n := calls.Add(1)
		switch tool {
		case "slow":
			<-release
		case "unauthorized":
			http.Error(w, "the token expired", http.StatusUnauthorized)
			return
		case "drop", "safe", "once":
			if n == 1 || tool == "drop" {
				panic(http.ErrAbortHandler)
			}
		case "busy":
			if n < 3 {
				http.Error(w, "later", http.StatusTooManyRequests)
				return
			}
		case "invalid":
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":`)
			return
		case "lost":
			if sessions.Add(1) == 1 {
				http.Error(w, "session not found", http.StatusNotFound)
				return
			}
		case "shop":
			if n <= 10 {
				http.Error(w, "your session at the shop has ended", http.StatusBadRequest)
				return
			}
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s done"}]}}`, id, tool)
	})
	slow := make(chan string)
	go func() { slow <- texts(s.call(t, "slow", nil)) }()
	for calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, tt := range []struct {
		tool, want string
		calls      int64
	}{
		{"unauthorized", "refused unauthorized: it answered with the status 401 Unauthorized: the token expired; check the credential, which --header sets", 1},
		{"drop", "did not answer drop: EOF. It may have acted", 1},
		{"once", "did not answer once: EOF. It may have acted", 1},
		{"safe", "safe done", 2},
		{"busy", "busy done", 3},
		{"invalid", "its answer is not a message", 1},
	} {
		calls.Store(0)
		checkContains(t, texts(s.call(t, tt.tool, nil)), tt.want)
		if n := calls.Load(); n != tt.calls {
			t.Errorf("%s: %d calls, want %d", tt.tool, n, tt.calls)
		}
	}
	close(release)
	if got := <-slow; got != "slow done" {
		t.Errorf("a call that ran meanwhile: %q", got)
	}
	// The server has forgotten the session: a new one begins, and the call is sent again.
	if got := texts(s.call(t, "lost", nil)); got != "lost done" {
		t.Errorf("lost: %q", got)
	}
	// It has not: a new session does not help.
	calls.Store(0)
	checkContains(t, texts(s.call(t, "shop", nil)), "shop was not run", "400 Bad Request: your session at the shop has ended")
	if n := calls.Load(); n != 6 {
		t.Errorf("shop: %d calls", n)
	}
}
