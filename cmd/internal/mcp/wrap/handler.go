package wrap

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// HandlerConfig configures a Handler. Identity and Proxy are required.
type HandlerConfig struct {
	// Identity returns whose request it is, and who has this identity, because somebody can have
	// several; "" means that the request is refused.
	Identity func(*http.Request) (identity, owner string)
	// Proxy returns the configuration of a proxy for an identity.
	Proxy func(identity string) Config
	Log   zerolog.Logger
}

// Handler serves clients over HTTP (streamable HTTP). Each session of a client has its
// own proxy, and so its own server. The clients of an identity that have no sessions
// (from revision 2026-07-28 on) share one.
type Handler struct {
	cfg     HandlerConfig
	ctx     context.Context
	cancel  context.CancelFunc
	proxies sync.WaitGroup
	jobs    sync.Map // see Config

	mu       sync.Mutex
	sessions map[string]*served // by the session's id, or by the identity with a prefix
}

const (
	// maxSessions is how many servers run at the same time, and maxOfOwner how many of them
	// for the same owner, so that nobody takes them all.
	maxSessions = 100
	maxOfOwner  = 50
	// maxIdle is how long a session without requests, streams and calls in the background is kept.
	maxIdle = 30 * time.Minute
)

// NewHandler returns a handler. The caller closes it.
func NewHandler(cfg HandlerConfig) *Handler {
	h := &Handler{cfg: cfg, sessions: map[string]*served{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close ends all sessions and their servers.
func (h *Handler) Close() {
	h.mu.Lock() // open starts no proxy after this
	h.cancel()
	h.mu.Unlock()
	h.proxies.Wait()
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	identity, owner := h.cfg.Identity(r)
	if identity == "" {
		http.Error(w, "the session of the request is not valid", http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, identity, owner)
	case http.MethodGet, http.MethodDelete:
		s := h.find(r.Header.Get("Mcp-Session-Id"), identity)
		switch {
		case r.Header.Get("Mcp-Session-Id") == "":
			w.Header().Set("Allow", "POST")
			http.Error(w, "without a session, there is no stream", http.StatusMethodNotAllowed)
		case s == nil:
			http.Error(w, unknownSession, http.StatusNotFound)
		case r.Method == http.MethodDelete:
			s.Close()
			w.WriteHeader(http.StatusNoContent)
		default:
			s.stream(w, r)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "want GET, POST or DELETE", http.StatusMethodNotAllowed)
	}
}

const unknownSession = "this session does not exist or has ended; send initialize again"

func (h *Handler) post(w http.ResponseWriter, r *http.Request, identity, owner string) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		http.Error(w, "want Content-Type: application/json", http.StatusUnsupportedMediaType)
		return
	}
	var body wire.Buffer
	if _, err := io.Copy(&body, io.LimitReader(r.Body, wire.MaxMessage+1)); err != nil {
		sendError(w, http.StatusBadRequest, "", wire.CodeParse, err.Error())
		return
	}
	messages, err := body.Messages()
	if size, ok := errors.AsType[*wire.SizeError](err); ok {
		sendError(w, http.StatusRequestEntityTooLarge, size.ID, wire.CodeInvalidRequest,
			fmt.Sprintf("the request is too large: it has more than %d MiB", wire.MaxMessage>>20))
		return
	}
	if err != nil || len(messages) != 1 { // no batches, as in the revisions from 2025-06-18 on
		sendError(w, http.StatusBadRequest, idOfRequest(err), wire.CodeParse, "want one message of JSON-RPC")
		return
	}
	m := messages[0]
	routing := readRouting(m)
	key := r.Header.Get("Mcp-Session-Id")
	var s *served
	switch {
	case routing.version >= wire.Stateless || routing.version == "" && r.Header.Get("Mcp-Protocol-Version") >= wire.Stateless:
		if text := mismatch(r, m, routing); text != "" {
			sendError(w, http.StatusBadRequest, m.ID, codeHeaderMismatch, text)
			return
		}
		s, err = h.open("identity "+identity, identity, owner, true)
	case m.Method == "initialize":
		key = rand.Text()
		if s, err = h.open(key, identity, owner, false); err == nil {
			w.Header().Set("Mcp-Session-Id", key)
		}
	case key == "":
		sendError(w, http.StatusBadRequest, m.ID, wire.CodeInvalidRequest, "the header Mcp-Session-Id is missing; send initialize first")
		return
	default:
		if s = h.find(key, identity); s == nil {
			sendError(w, http.StatusNotFound, m.ID, wire.CodeInvalidRequest, unknownSession)
			return
		}
	}
	if err != nil {
		sendError(w, http.StatusServiceUnavailable, m.ID, wire.CodeInternal, err.Error())
		return
	}
	s.handle(w, r, m)
}

func sendError(w http.ResponseWriter, status int, id string, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(wire.ErrorResponse(id, code, text).Text()) // fails only if the client is gone
}

// find returns a session of an identity that has not ended.
func (h *Handler) find(key, identity string) *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[key]; s != nil && s.identity == identity && !s.shared && !isClosed(s.closed) {
		return s
	}
	return nil
}

var errTooMany = errors.New("too many sessions are open; end one of them, or try again later")

// open returns a session. It starts the session's proxy if there is none, or if it ends.
func (h *Handler) open(key, identity, owner string, shared bool) (*served, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[key]; s != nil && !isClosed(s.closed) {
		return s, nil
	}
	if h.ctx.Err() != nil {
		return nil, errors.New("the server stops")
	}
	owned := 0
	for _, s := range h.sessions {
		if s.owner == owner {
			owned++
		}
	}
	if len(h.sessions) >= maxSessions || owned >= maxOfOwner {
		return nil, errTooMany
	}
	s := newServed(identity, shared)
	s.owner, s.busy = owner, func() bool { return h.inBackground(s) }
	cfg := h.cfg.Proxy(identity)
	cfg.jobs = &h.jobs
	h.sessions[key] = s
	h.proxies.Go(func() {
		err := Run(h.ctx, s, cfg)
		h.mu.Lock()
		if h.sessions[key] == s {
			delete(h.sessions, key)
		}
		h.mu.Unlock()
		s.end(err)
		if err != nil {
			h.cfg.Log.Warn().Str("session", identity).Err(err).Msg("an MCP session ended")
		}
	})
	h.proxies.Go(func() { s.closeWhenIdle(h.ctx, maxIdle) })
	return s, nil
}

// inBackground reports whether a call of a session runs in the background. Its client, or another session of its identity, will
// read the result.
func (h *Handler) inBackground(s *served) (found bool) {
	h.jobs.Range(func(_, value any) bool {
		j := value.(*job)
		client, ok := j.owner.client.(*draining)
		found = ok && client.Link == Link(s) && !isClosed(j.done)
		return !found
	})
	return found
}
