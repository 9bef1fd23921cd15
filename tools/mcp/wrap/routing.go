package wrap

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// stateless is the first revision without sessions.
const stateless = "2026-07-28"

// routing is what the headers of a request repeat of its body.
type routing struct{ version, name string }

func readRouting(m *wire.Message) (r routing) {
	if m.Params.Kind != '{' {
		return r
	}
	if v, err := m.Get(m.Params, "_meta"); err == nil && v.Kind == '{' {
		if v, err := m.Get(v, "io.modelcontextprotocol/protocolVersion"); err == nil && v.Kind == '"' {
			r.version, _ = m.Text(v, 100)
		}
	}
	key := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[m.Method]
	if v, err := m.Get(m.Params, key); key != "" && err == nil && v.Kind == '"' {
		r.name, _ = m.Text(v, 8<<10)
	}
	return r
}

// codeHeaderMismatch is the error for headers that do not repeat the body.
const codeHeaderMismatch = -32020

// mismatch says how the headers of a request without a session differ from its body.
func mismatch(r *http.Request, m *wire.Message, body routing) string {
	switch {
	case !m.IsRequest():
		return ""
	case body.version == "":
		return "the field io.modelcontextprotocol/protocolVersion of _meta is missing"
	case r.Header.Get("Mcp-Protocol-Version") != body.version:
		return "the header MCP-Protocol-Version is missing or differs from the request"
	case r.Header.Get("Mcp-Method") != m.Method:
		return "the header Mcp-Method is missing or differs from the request"
	case body.name != "" && decodeHeader(r.Header.Get("Mcp-Name")) != body.name:
		return "the header Mcp-Name is missing or differs from the request"
	}
	return ""
}

// headerValue encodes a name that is not plain text.
func headerValue(name string) string {
	for i := range len(name) {
		if name[i] < 0x20 || name[i] > 0x7e {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
		}
	}
	if name == "" || strings.TrimSpace(name) != name || strings.HasPrefix(name, "=?base64?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
	}
	return name
}

// decodeHeader decodes what headerValue encoded.
func decodeHeader(value string) string {
	if inner, ok := strings.CutPrefix(value, "=?base64?"); ok {
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?=")); err == nil {
			return string(decoded)
		}
	}
	return value
}
