package mcp

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/httpauth"
	"github.com/stevedore-bus/stevedore/tools"
)

// SessionHeader is an optional header of HTTP requests: a part of the token's session,
// such as one conversation.
const SessionHeader = "Stevedore-Session"

// Handler serves clients over HTTP. The identity of the request's token is the session;
// use it behind an httpauth.Guard. It keeps nothing between two requests, so any
// gateway can answer each of them.
func (g *Gateway) Handler() http.Handler {
	return g.withSessionID(mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		session, ok := SessionOf(r)
		if !ok {
			return nil
		}
		s, err := g.Server(r.Context(), session)
		if err != nil {
			g.cfg.Log.Warn().Err(err).Msg("cannot list the tools of the workers")
			return nil
		}
		return s
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxRequest,
		DisableLocalhostProtection: true, // the guard checks Host
	}))
}

// maxRequest is the largest request, in bytes. A call must fit into a message of the bus.
const maxRequest = 8 << 20

// SessionOf returns the session of a request: that of its token, or the part of it that
// the header names. "--" separates the two, and names of tokens do not contain it.
func SessionOf(r *http.Request) (string, bool) {
	session := httpauth.Identity(r.Context())
	if part := r.Header.Get(SessionHeader); part != "" && session != "" {
		session += "--" + part
	}
	return session, session != "" && len(session) <= tools.MaxIDLen
}

// Stdio serves one client over a pair of streams until the client closes its side or
// ctx ends.
func (g *Gateway) Stdio(ctx context.Context, session string, t mcp.Transport) error {
	s, err := g.Server(ctx, session)
	if err != nil {
		return err
	}
	return s.Run(ctx, t)
}
