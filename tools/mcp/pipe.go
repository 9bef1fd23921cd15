package mcp

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// pipe connects the SDK's client with a proxy in this process: it is the proxy's link to
// its client. The SDK's own transports would end the connection after one message that is
// too large or that is not JSON.
type pipe struct {
	toProxy, toSDK chan *wire.Message
	closed         chan struct{}
	once           sync.Once
}

func newPipe() *pipe {
	return &pipe{toProxy: make(chan *wire.Message), toSDK: make(chan *wire.Message), closed: make(chan struct{})}
}

// Send implements wrap.Link.
func (p *pipe) Send(m *wire.Message) error { return p.pass(p.toSDK, m) }

// Receive implements wrap.Link.
func (p *pipe) Receive() (*wire.Message, error) { return p.next(context.Background(), p.toProxy) }

// Close implements wrap.Link.
func (p *pipe) Close() { p.once.Do(func() { close(p.closed) }) }

func (p *pipe) pass(to chan *wire.Message, m *wire.Message) error {
	select {
	case to <- m:
		return nil
	case <-p.closed:
		return io.ErrClosedPipe
	}
}

func (p *pipe) next(ctx context.Context, from chan *wire.Message) (*wire.Message, error) {
	select {
	case m := <-from:
		return m, nil
	case <-p.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sdkEnd is the end of a pipe that the SDK has.
type sdkEnd struct{ *pipe }

// Connect implements mcp.Transport.
func (e sdkEnd) Connect(context.Context) (mcp.Connection, error) { return e, nil }

// SessionID implements mcp.Connection.
func (sdkEnd) SessionID() string { return "" }

// Close implements mcp.Connection.
func (e sdkEnd) Close() error { e.pipe.Close(); return nil }

// Write implements mcp.Connection.
func (e sdkEnd) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	m, err := wire.Parse(data)
	if err != nil {
		return err
	}
	return e.pass(e.toProxy, m)
}

// Read implements mcp.Connection.
func (e sdkEnd) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := e.next(ctx, e.toSDK)
		if err != nil {
			return nil, err
		}
		msg, err := jsonrpc.DecodeMessage(m.Text())
		if err != nil && m.IsResponse() {
			msg, err = jsonrpc.DecodeMessage(wire.ErrorResponse(m.ID, wire.CodeInternal, "the answer cannot be read: "+err.Error()).Text())
		}
		if err == nil {
			return msg, nil
		}
	}
}
