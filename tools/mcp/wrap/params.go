package wrap

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
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
func (h *HTTP) learnHeaders(m *wire.Message) {
	array, err := m.Get(m.Result, "tools")
	if err != nil || array.Kind != '[' {
		return
	}
	_ = m.Elements(array, func(v wire.Value) bool { // the proxy reports an invalid list
		var t struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		}
		if m.Decode(v, 4<<20, &t) != nil {
			return true
		}
		var schema headerSchema
		if bytes.Contains(t.InputSchema, []byte(`"x-mcp-header"`)) {
			_ = json.Unmarshal(t.InputSchema, &schema) // an invalid schema marks nothing
		}
		headers := schema.collect(nil, nil)
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.params, t.Name); headers != nil {
			h.params[t.Name] = headers
		}
		return true
	})
}

// setParams adds the headers for the marked arguments of a call. The server refuses a
// value that no header can have.
func (h *HTTP) setParams(header http.Header, m *wire.Message, tool string) {
	h.mu.Lock()
	params := h.params[tool]
	h.mu.Unlock()
	for _, p := range params {
		v, err := m.Get(m.Params, "arguments")
		for _, key := range p.path {
			if err != nil || v.Kind != '{' {
				v = wire.Value{}
				break
			}
			v, err = m.Get(v, key)
		}
		if text, ok := paramText(m, v); err == nil && ok {
			header.Set(p.header, text)
		}
	}
}

// paramText returns a text, a whole number or a truth value for a header.
func paramText(m *wire.Message, v wire.Value) (string, bool) {
	if v.Kind == 0 {
		return "", false
	}
	var value any
	if m.Decode(v, 8<<10, &value) != nil {
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
