package wrap

import "github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"

// NewEcho returns the link to a server without tools that answers a call of any tool with the
// arguments of the call. With it, a program shortens the results of its own tools.
func NewEcho() Link {
	near, far := Pipe()
	go func() { // ends with the link
		for {
			m, err := far.Receive()
			if err == nil && m.IsRequest() {
				err = far.Send(echo(m))
			}
			if err != nil {
				return
			}
		}
	}()
	return near
}

// echo answers a request.
func echo(m *wire.Message) *wire.Message {
	switch arguments := wire.Get(m.Params, "arguments"); {
	case m.Method == "initialize":
		return wire.Response(m.ID, fields{"protocolVersion": wire.Get(m.Params, "protocolVersion"),
			"capabilities": fields{"tools": fields{}}, "serverInfo": fields{"name": "stevedore", "version": "1"}})
	case m.Method == "ping":
		return wire.Response(m.ID, fields{})
	case m.Method == "tools/list":
		return wire.Response(m.ID, fields{"tools": []string{}})
	case m.Method == "tools/call" && wire.Kind(wire.Get(arguments, "content")) == '[':
		return wire.Response(m.ID, arguments)
	case m.Method == "tools/call":
		return wire.ErrorResponse(m.ID, wire.CodeInvalidParams, `the arguments are to be the result of the tool: {"content": [{"type": "text", "text": "..."}]}`)
	}
	return wire.ErrorResponse(m.ID, wire.CodeMethodNotFound, "method not found: "+m.Method)
}
