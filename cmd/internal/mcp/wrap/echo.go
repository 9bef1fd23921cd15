package wrap

import (
	"context"
	"io"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// echo is a server without tools. A call of any tool returns its arguments as the result.
type echo struct {
	answers chan *wire.Message
	closed  context.Context
	close   context.CancelFunc
}

// NewEcho returns the link to a server that answers a call of any tool with the arguments of
// the call. With it, a program shortens the results of its own tools.
func NewEcho() Link {
	e := &echo{answers: make(chan *wire.Message)}
	e.closed, e.close = context.WithCancel(context.Background())
	return e
}

// Send implements Link.
func (e *echo) Send(m *wire.Message) error {
	if !m.IsRequest() {
		return nil
	}
	answer := wire.ErrorResponse(m.ID, wire.CodeMethodNotFound, "method not found: "+m.Method)
	switch arguments := wire.Get(m.Params, "arguments"); {
	case m.Method == "initialize":
		answer = wire.Response(m.ID, fields{"protocolVersion": wire.Get(m.Params, "protocolVersion"), "capabilities": fields{"tools": fields{}}, "serverInfo": fields{"name": "stevedore", "version": "1"}})
	case m.Method == "ping":
		answer = wire.Response(m.ID, fields{})
	case m.Method == "tools/list":
		answer = wire.Response(m.ID, fields{"tools": []string{}})
	case m.Method == "tools/call" && wire.Kind(wire.Get(arguments, "content")) == '[':
		answer = wire.Response(m.ID, arguments)
	case m.Method == "tools/call":
		answer = wire.ErrorResponse(m.ID, wire.CodeInvalidParams, `the arguments are to be the result of the tool: {"content": [{"type": "text", "text": "..."}]}`)
	}
	select {
	case e.answers <- answer:
		return nil
	case <-e.closed.Done():
		return io.ErrClosedPipe
	}
}

// Receive implements Link.
func (e *echo) Receive() (*wire.Message, error) {
	select {
	case m := <-e.answers:
		return m, nil
	case <-e.closed.Done():
		return nil, io.EOF
	}
}

// Close implements Link.
func (e *echo) Close() { e.close() }
