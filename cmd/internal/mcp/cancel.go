package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools"
)

// A client of a revision before 2026-07-28 cancels a request by its id, in a request of
// its own that any gateway may get. The ids of two clients are the same, so a gateway
// gives each client a Mcp-Session-Id when it initializes. The gateway that runs a call
// subscribes to a subject that follows from the token's session, the Mcp-Session-Id and
// the id; the one that gets the cancellation publishes to this subject. Nothing is
// stored: a gateway accepts every Mcp-Session-Id.

const (
	sessionIDHeader = "Mcp-Session-Id"
	versionHeader   = "Mcp-Protocol-Version"
	// requestKeyHeader is set by withSessionID, and never by a client.
	requestKeyHeader = "Stevedore-Request-Key"
)

// withSessionID gives clients a Mcp-Session-Id, and publishes their cancellations. A batch, and what the SDK refuses, passes.
func (g *Gateway) withSessionID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del(requestKeyHeader)
		session := g.sessionOf(r)
		if session == "" || r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1)) // the SDK refuses what is longer
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		if m, err := wire.Parse(body); err == nil {
			w, body = wire.WithExactIDs(w, m)
			g.noteSession(w, r, session, m)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// noteSession gives a new client its session, names its calls for a later cancellation, and publishes a cancellation.
func (g *Gateway) noteSession(w http.ResponseWriter, r *http.Request, session string, m *wire.Message) {
	id, cancelled := r.Header.Get(sessionIDHeader), wire.IDOf(wire.Get(m.Params, "requestId"))
	switch {
	case r.Header.Get(versionHeader) >= wire.Stateless:
	case m.Method == "initialize":
		w.Header().Set(sessionIDHeader, rand.Text())
	case id == "": // the client could be any client
	case m.Method == "tools/call" && m.IsRequest():
		r.Header.Set(requestKeyHeader, requestKey(id, m.ID))
	case m.Method == "notifications/cancelled" && cancelled != "":
		if err := g.bus.Conn().Publish(g.bus.Cancel(tools.Token(session), requestKey(id, cancelled)), nil); err != nil {
			g.cfg.Log.Warn().Str("session", session).Err(err).Msg("cannot pass on a cancellation")
		}
	}
}

// requestKey names a request of a client within the session of its token.
func requestKey(sessionID, id string) string {
	hash := sha256.Sum256([]byte(sessionID + "\x00" + id))
	return "mcp_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:20]))
}

// cancellable returns a context that ends if the client cancels the request through any
// gateway.
func (c *client) cancellable(ctx context.Context, r *mcp.CallToolRequest) (context.Context, func(), error) {
	if r.Extra == nil || r.Extra.Header.Get(requestKeyHeader) == "" {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	b := c.gateway.bus
	sub, err := b.Conn().Subscribe(b.Cancel(c.session, r.Extra.Header.Get(requestKeyHeader)), func(*nats.Msg) { cancel() })
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return ctx, func() {
		_ = sub.Unsubscribe() // fails only if the connection is closed
		cancel()
	}, nil
}
