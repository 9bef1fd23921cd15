package mcp

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools/mcp/wrap"
)

// connection carries the messages between the SDK and a server. The SDK's own transports
// end a connection after one message that is too large or that is not JSON; here, such a
// message concerns its request only.
type connection struct {
	link wrap.Link
	note func(string) // logs what is dropped

	sending sync.Mutex // of link.Send
	mu      sync.Mutex
	cause   error // why the link ended
}

// Connect implements mcp.Transport.
func (c *connection) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection.
func (c *connection) SessionID() string { return "" }

// Close implements mcp.Connection.
func (c *connection) Close() error { c.link.Close(); return nil }

// Write implements mcp.Connection.
func (c *connection) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	m, err := wire.Parse(data)
	if err != nil {
		return err
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.link.Send(m)
}

// codeFailed and the codes after it, one for each wrap.Fate, are the codes of requests
// that got no answer. JSON-RPC does not use them.
const codeFailed = -31990

// Read implements mcp.Connection.
func (c *connection) Read(context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.link.Receive()
		if failed, ok := errors.AsType[*wrap.RequestError](err); ok {
			m = wire.ErrorResponse(failed.ID, codeFailed-int(failed.Fate), failed.Error())
		} else if size, ok := errors.AsType[*wire.SizeError](err); ok {
			m = wire.ErrorResponse(size.ID, codeFailed-int(wrap.Unknown), size.Error())
		} else if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
			c.note("it wrote a line that is not a message: " + syntax.Text)
			continue
		} else if err != nil {
			c.mu.Lock()
			c.cause = err
			c.mu.Unlock()
			return nil, io.EOF
		}
		msg, decodeErr := jsonrpc.DecodeMessage(m.Text())
		switch {
		case decodeErr == nil:
			return msg, nil
		case err != nil: // the message has no id
			c.note(err.Error())
		default:
			c.note(decodeErr.Error())
		}
	}
}

func (c *connection) endedBy(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return err
}
