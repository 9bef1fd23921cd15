package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is a JSON-RPC message. It does not change.
type Message struct {
	// ID is the id in the form of IDOf; it is empty for a notification.
	ID string
	// Method is empty for a response.
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage

	members Object
	text    []byte // nil if it follows from the members
}

// IsRequest, IsResponse and IsNotification tell the kind of a message.
func (m *Message) IsRequest() bool      { return m.Method != "" && m.ID != "" }
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == "" }
func (m *Message) IsResponse() bool     { return m.Method == "" }

// Parse parses a message. The message takes over the text.
func Parse(text []byte) (*Message, error) {
	if !isValid(text) {
		return nil, errInvalid
	}
	text = bytes.TrimSpace(text)
	if bytes.ContainsAny(text, "\r\n") { // white space; a message is a line
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte{'\n'}, []byte{' '}), []byte{'\r'}, []byte{' '})
	}
	members := ObjectOf(text)
	seen := map[string]bool{}
	for _, m := range members {
		if seen[m.Name] { // two programs could read two messages
			return nil, fmt.Errorf("the member %.80q is repeated", m.Name)
		}
		seen[m.Name] = true
	}
	m := newMessage(members)
	m.text = text
	switch id := members.Get("id"); {
	case Kind(id) == '{' || Kind(id) == '[' || Kind(id) == 't' || Kind(id) == 'f' || len(id) > 4<<10:
		return nil, errors.New("the id of the message is not a short string or a number")
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return nil, errors.New("the message has no method, result or error")
	}
	return m, nil
}

func newMessage(members Object) *Message {
	m := &Message{members: members, Params: members.Get("params"), Result: members.Get("result"), Error: members.Get("error")}
	m.Method, _ = Text(members.Get("method"))
	m.ID = IDOf(members.Get("id"))
	return m
}

// IDOf returns an id or a progress token in one form, because programs write 1.0 as 1 and a\/b as a/b. It is empty for null.
func IDOf(raw json.RawMessage) string {
	if Kind(raw) == 'n' {
		return ""
	}
	id := jsontext.Value(bytes.Clone(raw))
	_ = id.Format(jsontext.CanonicalizeRawFloats(true), jsontext.AllowInvalidUTF8(true)) // otherwise it is what it was
	return string(id)
}

// With returns the message with another value of a member.
func (m *Message) With(name string, value json.RawMessage) *Message {
	return newMessage(m.members.With(name, value))
}

// Text returns the message as one line.
func (m *Message) Text() []byte {
	if m.text != nil {
		return m.text
	}
	return m.members.Text()
}

// Size is about the length of the message in bytes.
func (m *Message) Size() (size int64) {
	for _, member := range m.members {
		size += int64(len(member.Name) + len(member.Value) + 4)
	}
	return size
}

// Request returns a request, or a notification if id is empty. Without params it has none.
func Request(id, method string, params any) *Message {
	o := Object{{"jsonrpc", JSON("2.0")}}
	if id != "" {
		o = append(o, Member{"id", json.RawMessage(id)})
	}
	o = append(o, Member{"method", JSON(method)})
	if params != nil {
		o = append(o, Member{"params", JSON(params)})
	}
	return newMessage(o)
}

// Response returns the response to the request with an id.
func Response(id string, result any) *Message {
	return newMessage(Object{{"jsonrpc", JSON("2.0")}, {"id", json.RawMessage(id)}, {"result", JSON(result)}})
}

// Stateless is the first revision without sessions. From it on, a server asks the user by a result, and tells only
// clients that subscribe that its tools changed.
const Stateless = "2026-07-28"

// MethodListen is the method of a request that has no answer before it ends: a subscription to changes.
const MethodListen = "subscriptions/listen"

// Codes of JSON-RPC and MCP errors.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeParse          = -32700
)

// ErrorResponse returns an error response. Without an id, nobody knows which request it
// is for.
func ErrorResponse(id string, code int, message string) *Message {
	id = cmp.Or(id, "null")
	return newMessage(Object{{"jsonrpc", JSON("2.0")}, {"id", json.RawMessage(id)}, {"error", JSON(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{code, message})}})
}
