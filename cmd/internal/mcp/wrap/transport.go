package wrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
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
	m, err := wire.Parse(fromSDK(data))
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
		msg, err := jsonrpc.DecodeMessage(forSDK(r.m))
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

// numberID begins the text that the SDK gets in place of an id or a progress token that is a number. Nobody can guess it, so that no
// content has it.
var (
	numberID = "number " + rand.Text() + " "
	numbers  = lazyregexp.New(`"` + numberID + `[^"]*"`)
)

// forSDK returns a message whose ids the SDK does not change: it reads a number as a float64, so that of the nanoseconds
// that some clients number by, the last digits would be lost, and nobody could tell whose answer it is.
func forSDK(m *wire.Message) json.RawMessage {
	text := m.Text()
	for _, path := range [][]string{{"id"}, {"params", "requestId"}, {"params", "_meta", "progressToken"}} {
		id := wire.IDOf(wire.Get(text, path...))
		isNumber := id != "" && strings.Trim(id, "+-.eE0123456789") == ""
		if n, err := strconv.ParseInt(id, 10, 64); isNumber && (err != nil || max(n, -n) > 1<<53 || n == math.MinInt64) {
			text = wire.Set(text, wire.JSON(numberID+id), path...)
		}
	}
	return text
}

// fromSDK returns what the SDK writes with the ids of its client.
func fromSDK(text []byte) []byte {
	if !bytes.Contains(text, []byte(numberID)) {
		return text
	}
	return numbers.ReplaceAllFunc(text, func(id []byte) []byte { return id[1+len(numberID) : len(id)-1] })
}

// WithExactIDs returns the message of a request for the SDK, and the writer for its answer, which has the ids of the client.
func WithExactIDs(w http.ResponseWriter, m *wire.Message) (http.ResponseWriter, []byte) {
	return exactIDs{w}, forSDK(m)
}

type exactIDs struct{ http.ResponseWriter }

// Write implements io.Writer. The SDK writes each message, or event, at once.
func (w exactIDs) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(fromSDK(p))
	return len(p), err
}

// Unwrap is for http.ResponseController.
func (w exactIDs) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
	a, b, closed := make(chan *wire.Message), make(chan *wire.Message), make(chan struct{})
	end := sync.OnceFunc(func() { close(closed) })
	return pipe{a, b, closed, end}, pipe{b, a, closed, end}
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
