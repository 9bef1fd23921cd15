package wrap

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// A server at a URL: with sessions and streams, without sessions, and with plain JSON.
func TestServerAtURL(t *testing.T) {
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
					return NewHTTP(srv.URL, http.Header{"Authorization": {"Bearer secret"}}), nil
				}
			})
			if got := texts(s.call(t, "echo", map[string]any{"text": "hello"})); got != "hello" {
				t.Errorf("echo: %q", got)
			}
			for _, lines := range []int{3000, 100_000} {
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
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a token is required", http.StatusUnauthorized)
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, want := range map[string]string{srv.URL: "401 Unauthorized: a token is required", gone.URL + "/?key=secret": "connection refused"} {
		h := NewHTTP(url, nil)
		m, err := wire.Request("1", "initialize", map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Send(m); err != nil {
			t.Fatal(err)
		}
		_, err = h.Receive()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v; want %q", err, want)
		}
		h.Close()
	}
}

func TestEvents(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	in := ": comment\nevent: message\ndata: {\"a\":\ndata: 1}\n\nid: 7\r\ndata:{\"b\":2}\r\n\r\ndata: \"" + big + "\"\n\ndata: cut"
	var got []string
	var resume wire.Resume
	err := wire.Events(strings.NewReader(in), &resume, func(b *wire.Body) {
		data, err := io.ReadAll(io.NewSectionReader(b, 0, b.Size()))
		if err != nil {
			t.Error(err)
		}
		got = append(got, string(data))
		b.Close()
	})
	if err != nil || len(got) != 3 || got[0] != "{\"a\":\n1}" || got[1] != `{"b":2}` || got[2] != `"`+big+`"` || resume.ID != "7" {
		t.Errorf("%d events: %v", len(got), err)
	}
}

// A server may end the stream of a request and send the response when the client asks
// for the rest of the stream.
func TestResumedStream(t *testing.T) {
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
	h := NewHTTP(srv.URL, nil)
	defer h.Close()
	m, err := wire.Request("1", "ping", nil)
	if err == nil {
		err = h.Send(m)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Receive(); err != nil || got.ID != "1" {
		t.Errorf("%v %v", got, err)
	}
}
