package wrap

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// Transport gives the SDK a Link. The SDK's own transports end the connection after one
// message that is too large or that is not JSON; here, the sender gets an error.
type Transport struct{ Link }

// Connect implements mcp.Transport.
func (t Transport) Connect(context.Context) (mcp.Connection, error) {
	c := &connectedTransport{link: t.Link, in: make(chan received), closed: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.closed); t.Link.Close() })
	go func() { // ends with the link; to read standard input cannot be interrupted
		for {
			m, err := t.Link.Receive()
			select {
			case c.in <- received{m, err}:
			case <-c.closed:
				return
			}
			if err != nil && !wire.IsOfOneMessage(err) {
				return
			}
		}
	}()
	return c, nil
}

type connectedTransport struct {
	link   Link
	in     chan received
	closed chan struct{}
	end    func()
	mu     sync.Mutex // of link.Send
}

// SessionID implements mcp.Connection.
func (*connectedTransport) SessionID() string { return "" }

// Close implements mcp.Connection.
func (c *connectedTransport) Close() error { c.end(); return nil }

// Write implements mcp.Connection.
func (c *connectedTransport) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	m, err := wire.Parse(wire.FromSDK(data))
	if err != nil {
		return err
	}
	return c.send(m)
}

func (c *connectedTransport) send(m *wire.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link.Send(m)
}

// Read implements mcp.Connection.
func (c *connectedTransport) Read(context.Context) (jsonrpc.Message, error) {
	for {
		var r received
		select {
		case r = <-c.in:
		case <-c.closed:
			return nil, io.EOF
		}
		if wire.IsOfOneMessage(r.err) {
			if err := c.send(invalid(r.err)); err != nil {
				return nil, err
			}
			continue
		}
		if r.err != nil {
			return nil, r.err
		}
		msg, err := jsonrpc.DecodeMessage(wire.ForSDK(r.m))
		if err != nil && r.m.IsResponse() {
			msg, err = jsonrpc.DecodeMessage(wire.ErrorResponse(r.m.ID, wire.CodeInternal, "the answer cannot be read: "+err.Error()).Text())
		}
		if err == nil {
			return msg, nil
		}
		if err := c.send(wire.ErrorResponse(r.m.ID, wire.CodeInvalidRequest, err.Error())); err != nil {
			return nil, err
		}
	}
}

// invalid is the answer to a message that is too large or that is not JSON.
func invalid(err error) *wire.Message {
	if size, ok := errors.AsType[*wire.SizeError](err); ok {
		return wire.ErrorResponse(size.ID, wire.CodeInvalidRequest, size.Error())
	}
	return wire.ErrorResponse(idOfRequest(err), wire.CodeParse, "the message is not valid: "+err.Error())
}

// idOfRequest returns the id of a request that is not valid, or "". The id of a response is one of
// the other side.
func idOfRequest(err error) string {
	if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok && strings.Contains(syntax.Text, `"method"`) {
		return syntax.ID
	}
	return ""
}

// pipe is one end of a connection in this process.
type pipe struct {
	in, out chan *wire.Message
	closed  chan struct{}
	close   func()
}

// Pipe returns the two ends of a connection in this process.
func Pipe() (Link, Link) {
	near := newPipe(make(chan *wire.Message), make(chan *wire.Message))
	far := near
	far.in, far.out = near.out, near.in
	return near, far
}

func newPipe(in, out chan *wire.Message) pipe {
	closed := make(chan struct{})
	return pipe{in, out, closed, sync.OnceFunc(func() { close(closed) })}
}

// Send implements Link.
func (p pipe) Send(m *wire.Message) error {
	select {
	case p.out <- m:
		return nil
	case <-p.closed:
		return io.ErrClosedPipe
	}
}

// Receive implements Link.
func (p pipe) Receive() (*wire.Message, error) {
	select {
	case m := <-p.in:
		return m, nil
	case <-p.closed:
		return nil, io.EOF
	}
}

// Close implements Link.
func (p pipe) Close() { p.close() }
