package wrap

import (
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// RequestError is an error of Link.Receive that concerns one message to the server.
type RequestError struct {
	// ID is the id of the request; it is empty for another message.
	ID   string
	Fate Fate
	Err  error
}

// Fate is what became of a request that got no answer.
type Fate int

const (
	// Unknown means that the server may have acted.
	Unknown Fate = iota
	// Unsent means that the server did not accept the request now.
	Unsent
	// Refused means that the server does not accept the request.
	Refused
)

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// maxUnsent is how often a request is sent that the server does not accept. The pauses
// add up to 6 seconds.
const maxUnsent = 5

// requestFailed sends a request again, or answers it with an error. The other requests
// go on.
func (p *proxy) requestFailed(c *connection, e *RequestError) {
	text := tools.Excerpt(tools.OneLine(e.Error()), 600)
	p.mu.Lock()
	if answer, ok := p.internal[e.ID]; ok {
		delete(p.internal, e.ID)
		if m, err := wire.ErrorResponse(e.ID, wire.CodeInternal, text, nil); err == nil {
			answer <- m
		}
		p.mu.Unlock()
		return
	}
	r, ok := p.pending[e.ID]
	if !ok {
		p.mu.Unlock()
		p.cfg.Log.Debug().Str("server", p.cfg.Name).Str("error", text).Msg("a message did not reach the MCP server")
		return
	}
	r.sent = false
	again := false
	switch e.Fate {
	case Unsent:
		r.attempts-- // the server did not see it
		again = r.unsent < maxUnsent && !r.cancelled
		r.unsent++
	case Unknown:
		again = p.repeatableLocked(r)
	}
	if !again {
		delete(p.pending, e.ID)
	}
	p.mu.Unlock()
	if !again {
		p.fail(r, p.failedText(r, e.Fate, text))
		return
	}
	time.AfterFunc(100*time.Millisecond<<r.unsent, func() {
		p.mu.Lock()
		// After a restart, resume sends it.
		full := p.pending[e.ID] == r && !r.sent && p.server == c && c.ready && !p.sendLocked(r)
		p.mu.Unlock()
		if full {
			p.fail(r, p.fullText())
		}
	})
}

func (p *proxy) failedText(r *request, fate Fate, text string) string {
	what := r.Method
	if r.tool != "" {
		what = r.tool
	}
	switch {
	case fate == Unsent:
		return fmt.Sprintf("The MCP server %s cannot be reached, and %s was not run: %s", p.cfg.Name, what, text)
	case fate == Refused:
		return fmt.Sprintf("The MCP server %s refused %s: %s", p.cfg.Name, what, text)
	case mayAct(r):
		return fmt.Sprintf("The MCP server %s did not answer %s: %s. It may have acted; check the effect before you repeat it.", p.cfg.Name, what, text)
	}
	return fmt.Sprintf("The MCP server %s did not answer %s: %s", p.cfg.Name, what, text)
}
