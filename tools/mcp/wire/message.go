package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Message is a JSON-RPC message. Its parts are positions in the body.
type Message struct {
	*Body
	// ID is the text of the id; it is empty for a notification.
	ID string
	// Method is empty for a response.
	Method string
	Params Value
	Result Value
	Error  Value
	// Edits are the changes that WriteTo makes.
	Edits []Edit
}

// Limits of the fields of a message, in bytes.
const (
	maxID     = 4 << 10
	maxMethod = 256
)

// IsRequest, IsResponse and IsNotification tell the kind of a message.
func (m *Message) IsRequest() bool      { return m.Method != "" && m.ID != "" }
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == "" }
func (m *Message) IsResponse() bool     { return m.Method == "" }

// Parse parses a message. The message takes over the body if there is no error.
func Parse(b *Body) (*Message, error) {
	if b.InMemory() && !json.Valid(b.data) {
		return nil, errSyntax
	}
	whole, err := b.Whole()
	if err != nil {
		return nil, err
	}
	members, err := b.Members(whole, 1000)
	if err != nil {
		return nil, err
	}
	m := &Message{Body: b}
	m.Params, m.Result, m.Error = Find(members, "params"), Find(members, "result"), Find(members, "error")
	if id := Find(members, "id"); id.Exists() && id.Kind != 'n' {
		raw, err := b.Bytes(id, maxID)
		if err != nil || id.Kind == '{' || id.Kind == '[' || id.Kind == 't' || id.Kind == 'f' {
			return nil, errors.Join(errors.New("the id of a message is not a string or a number"), err)
		}
		m.ID = string(raw)
	}
	if method := Find(members, "method"); method.Exists() {
		if m.Method, err = b.Text(method, maxMethod); err != nil {
			return nil, fmt.Errorf("method: %w", err)
		}
	}
	if m.Method == "" && !m.Result.Exists() && !m.Error.Exists() {
		return nil, errors.New("the message has no method, result or error")
	}
	return m, nil
}

// Request returns a request, or a notification if id is empty.
func Request(id, method string, params any) (*Message, error) {
	event := struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id,omitempty"`
		Method  string          `json:"method"`
		Params  any             `json:"params,omitempty"`
	}{"2.0", json.RawMessage(id), method, params}
	return encode(event)
}

// Response returns the response to the request with an id.
func Response(id string, result any) (*Message, error) {
	return encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", json.RawMessage(id), result})
}

// Codes of JSON-RPC and MCP errors.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeParse          = -32700
)

// ErrorResponse returns an error response.
func ErrorResponse(id string, code int, message string, data any) (*Message, error) {
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	return encode(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", json.RawMessage(id), rpcError{code, message, data}})
}

func encode(v any) (*Message, error) {
	data, err := Encode(v)
	if err != nil {
		return nil, err
	}
	return Parse(BodyOf(data))
}

// Encode returns v as one line of JSON, without the escapes for HTML.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}
