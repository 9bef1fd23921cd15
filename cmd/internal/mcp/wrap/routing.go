package wrap

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// versionKey is the field of _meta with the revision of a request.
const versionKey = "io.modelcontextprotocol/protocolVersion"

// routing is what the headers of a request repeat of its body.
type routing struct{ version, name string }

func readRouting(m *wire.Message) (r routing) {
	r.version, _ = wire.Text(wire.Get(m.Params, "_meta", versionKey))
	if key := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[m.Method]; key != "" {
		r.name, _ = wire.Text(wire.Get(m.Params, key))
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
	special := strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r > 0x7e })
	if special || name == "" || strings.TrimSpace(name) != name || strings.HasPrefix(name, "=?base64?") {
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
