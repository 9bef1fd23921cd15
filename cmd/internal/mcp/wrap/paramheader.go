package wrap

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// A server of revision 2026-07-28 may mark arguments of a tool with x-mcp-header. A
// request then repeats these arguments in headers, or the server refuses it. Over stdio
// the client sends no headers, so the link adds them, from the last list of tools.

// paramHeader is an argument that a header repeats.
type paramHeader struct {
	path   []string // in the arguments
	header string
}

// headerSchema is the part of a schema that marks arguments.
type headerSchema struct {
	Header     any                     `json:"x-mcp-header"`
	Properties map[string]headerSchema `json:"properties"`
}

// collect adds the marked arguments below path to out.
func (s headerSchema) collect(path []string, out []paramHeader) []paramHeader {
	for name, property := range s.Properties {
		path := append(path[:len(path):len(path)], name)
		if header, ok := property.Header.(string); ok && isFieldName(header) {
			out = append(out, paramHeader{path, "Mcp-Param-" + header})
		}
		out = property.collect(path, out)
	}
	return out
}

// isFieldName reports whether a text can be part of the name of a header.
func isFieldName(text string) bool {
	return text != "" && strings.Trim(text, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// learnHeaders reads the marked arguments from a list of tools.
func (h *HTTP) learnHeaders(result json.RawMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for tool := range wire.Elements(wire.Get(result, "tools")) {
		name, _ := wire.Text(wire.Get(tool, "name"))
		delete(h.params, name)
		var schema headerSchema
		if raw := wire.Get(tool, "inputSchema"); bytes.Contains(raw, []byte(`"x-mcp-header"`)) && json.Unmarshal(raw, &schema) == nil {
			h.params[name] = schema.collect(nil, nil)
		}
	}
}

// setParams adds the headers for the marked arguments of a call. The server refuses a
// value that no header can have.
func (h *HTTP) setParams(header http.Header, m *wire.Message, tool string) {
	h.mu.Lock()
	params := h.params[tool]
	h.mu.Unlock()
	for _, p := range params {
		if text, ok := paramText(wire.Get(wire.Get(m.Params, "arguments"), p.path...)); ok {
			header.Set(p.header, text)
		}
	}
}

// paramText returns a text, a whole number or a truth value for a header.
func paramText(raw json.RawMessage) (string, bool) {
	var value any
	if len(raw) > 8<<10 || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	switch value := value.(type) {
	case string:
		return headerValue(value), true
	case bool:
		return strconv.FormatBool(value), true
	case float64:
		const safe = 1<<53 - 1
		whole := int64(max(-safe, min(safe, value)))
		return strconv.FormatInt(whole, 10), float64(whole) == value
	}
	return "", false
}
