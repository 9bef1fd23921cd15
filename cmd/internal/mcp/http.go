package mcp

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/bus/agents"
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
		session := g.sessionOf(r)
		if session == "" {
			return nil
		}
		s, err := g.Server(r.Context(), session)
		if err != nil {
			g.cfg.Log.Warn().Err(err).Msg("cannot serve an MCP client")
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

// sessionOf is SessionOf for an identity that may be the token of a session.
func (g *Gateway) sessionOf(r *http.Request) string {
	name, err := agents.NameOf(r.Context(), g.bus, httpauth.Identity(r.Context()))
	if err != nil {
		g.cfg.Log.Warn().Err(err).Msg("cannot find the session of an MCP client")
		return ""
	}
	return SessionOf(name, r)
}

// SessionOf returns the session of a request of an identity, or the part of it that the header
// names. "--" separates the two, and names of tokens do not contain it. It is "" if it is not valid.
func SessionOf(session string, r *http.Request) string {
	if part := r.Header.Get(SessionHeader); part != "" && session != "" {
		session += "--" + part
	}
	if len(session) > tools.MaxIDLen {
		return ""
	}
	return session
}

// Stdio serves one client over a pair of streams until the client closes its side or ctx
// ends. The session is given by its name or its token.
func (g *Gateway) Stdio(ctx context.Context, session string, t mcp.Transport) error {
	name, err := agents.NameOf(ctx, g.bus, session)
	if err != nil {
		return err
	}
	s, err := g.Server(ctx, name)
	if err != nil {
		return err
	}
	return s.Run(ctx, t)
}
