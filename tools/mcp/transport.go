package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
	"github.com/stevedore-bus/stevedore/tools/mcp/wrap"
)

// connection carries the messages between the SDK and a server. The SDK needs whole
// messages in memory. Of a message in a temporary file, it gets a short form in which
// keys stand for the big texts; texts returns them.
type connection struct {
	link wrap.Link
	note func(string) // logs what is dropped

	sending sync.Mutex // of link.Send
	mu      sync.Mutex
	cause   error // why the link ended
	texts   map[string]bigText
}

// bigText is a text or a file in a message.
type bigText struct {
	open func() io.Reader
	done func() // releases the message when it is called for its last text
}

func newConnection(link wrap.Link, note func(string)) *connection {
	return &connection{link: link, note: note, texts: map[string]bigText{}}
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
	m, err := wire.Parse(wire.BodyOf(data))
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
		if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
			c.note("it wrote a line that is not a message: " + syntax.Line)
			continue
		}
		if failed, ok := errors.AsType[*wrap.RequestError](err); ok {
			if failed.ID == "" {
				c.note(failed.Error())
				continue
			}
			return c.failed(failed.ID, codeFailed-int64(failed.Fate), failed.Error())
		}
		if err != nil {
			c.mu.Lock()
			c.cause = err
			c.mu.Unlock()
			return nil, io.EOF
		}
		msg, err := c.decode(m)
		if err != nil {
			if m.IsResponse() && m.ID != "" {
				return c.failed(m.ID, codeFailed-int64(wrap.Unknown), "its answer cannot be read: "+err.Error())
			}
			c.note(err.Error())
			continue
		}
		return msg, nil
	}
}

func (c *connection) failed(id string, code int64, text string) (jsonrpc.Message, error) {
	m, err := wire.ErrorResponse(id, int(code), text, nil)
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(mustBytes(m))
}

func mustBytes(m *wire.Message) []byte {
	var buf bytes.Buffer
	_ = m.WriteEdited(&buf, m.Edits) // it is in memory
	return buf.Bytes()
}

const (
	// bigTextSize is the size from which a text of a message in a file is left there.
	bigTextSize = 64 << 10
	// maxMessage is the size of the rest, such as images.
	maxMessage = 64 << 20
	// textKept is how long a text waits for the call that wants it.
	textKept = time.Minute
)

func (c *connection) decode(m *wire.Message) (jsonrpc.Message, error) {
	if m.InMemory() {
		return jsonrpc.DecodeMessage(mustBytes(m))
	}
	kept := false
	defer func() {
		if !kept {
			m.Close()
		}
	}()
	texts, err := c.cut(m)
	if err != nil {
		return nil, err
	}
	size := m.Size()
	for _, e := range m.Edits {
		size -= e.To - e.From - int64(len(e.With))
	}
	if size > maxMessage {
		return nil, fmt.Errorf("without its texts it has %d bytes, more than %d", size, maxMessage)
	}
	var buf bytes.Buffer
	if err := m.WriteEdited(&buf, m.Edits); err != nil {
		return nil, err
	}
	msg, err := jsonrpc.DecodeMessage(buf.Bytes())
	if err == nil && len(texts) > 0 {
		kept = true
		c.keep(m, texts)
	}
	return msg, err
}

// cut replaces the big texts of a tool's result by keys.
func (c *connection) cut(m *wire.Message) (map[string]func() io.Reader, error) {
	texts := map[string]func() io.Reader{}
	replace := func(v wire.Value, open func() io.Reader, encode func(key string) any) error {
		key := keyPrefix + rand.Text()
		with, err := wire.Encode(encode(key))
		m.Edits = append(m.Edits, wire.Edit{From: v.Start, To: v.End, With: with})
		texts[key] = open
		return err
	}
	asText := func(key string) any { return key }
	if m.Result.Kind != '{' {
		return nil, nil
	}
	content, err := m.Get(m.Result, "content")
	if err != nil {
		return nil, err
	}
	blocks := 0
	if content.Kind == '[' {
		err = errors.Join(m.Elements(content, func(block wire.Value) bool {
			blocks++
			if block.Kind != '{' || block.Len() < bigTextSize {
				return true
			}
			at := block
			if resource, getErr := m.Get(block, "resource"); getErr == nil && resource.Kind == '{' {
				at = resource
			}
			var text, blob wire.Value
			if text, err = m.Get(at, "text"); err == nil {
				blob, err = m.Get(at, "blob")
			}
			switch {
			case err != nil:
			case text.Kind == '"' && text.Len() >= bigTextSize:
				err = replace(text, func() io.Reader { return m.Strings(text) }, asText)
			case blob.Kind == '"' && blob.Len() >= bigTextSize:
				err = replace(blob, func() io.Reader { return m.Base64(blob) }, func(key string) any { return []byte(key) })
			}
			return err == nil
		}), err)
	}
	structured, getErr := m.Get(m.Result, "structuredContent")
	if err = errors.Join(err, getErr); err == nil && structured.Len() >= bigTextSize {
		if blocks > 0 { // they say the same
			m.Edits = append(m.Edits, wire.Edit{From: structured.Start, To: structured.End, With: []byte("null")})
		} else {
			err = replace(structured, func() io.Reader { return m.Reader(structured) }, func(key string) any { return map[string]string{keyPrefix: key} })
		}
	}
	return texts, err
}

// keyPrefix is the beginning of a key. No server can guess the rest.
const keyPrefix = "stevedore-text-"

// keep keeps the texts of a message until the call takes them, or for a while.
func (c *connection) keep(m *wire.Message, texts map[string]func() io.Reader) {
	left := len(texts)
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, open := range texts {
		c.texts[key] = bigText{open, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if left--; left == 0 {
				m.Close()
			}
		}}
	}
	time.AfterFunc(textKept, func() {
		for key := range texts {
			if text, ok := c.take(key); ok {
				text.done()
			}
		}
	})
}

// take returns the text that a key stands for. The caller calls its done.
func (c *connection) take(key string) (bigText, bool) {
	if !strings.HasPrefix(key, keyPrefix) {
		return bigText{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.texts[key]
	delete(c.texts, key)
	return text, ok
}

// keyLength is the length of a key: rand.Text has 26 characters.
const keyLength = len(keyPrefix) + 26

// isKey reports whether a text is a key, perhaps of a text that is no longer kept.
func isKey(text string) bool { return len(text) == keyLength && strings.HasPrefix(text, keyPrefix) }

// copyText writes a text to w. It may be the key of a big one.
func (c *connection) copyText(w io.Writer, text string) error {
	big, ok := c.take(text)
	if !ok && isKey(text) {
		return fmt.Errorf("a text of the result was given up, because the worker did not read it within %s; call the tool again if that is safe", textKept)
	}
	if !ok {
		_, err := io.WriteString(w, text)
		return err
	}
	defer big.done()
	_, err := io.Copy(w, big.open())
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
		return errors.New("a file of the result is not base64")
	}
	return err
}

// structuredText returns a structured content as JSON, or the key of a big one.
func structuredText(structured any) string {
	if object, ok := structured.(map[string]any); ok && len(object) == 1 {
		if key, ok := object[keyPrefix].(string); ok {
			return key
		}
	}
	data, _ := json.Marshal(structured) // it was decoded from JSON
	return string(data)
}

func (c *connection) endedBy(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return err
}
