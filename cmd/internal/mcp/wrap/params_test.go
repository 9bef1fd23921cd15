package wrap

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK's server refuses a call without the headers of marked arguments, and with
// headers that differ from them.
func TestParamHeaders(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "x", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "query", InputSchema: json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"count":{"type":"integer","x-mcp-header":"Count"},
		"options":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry-Run"}}},
		"text":{"type":"string"}}}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var names []string
		for name := range r.Extra.Header {
			if strings.HasPrefix(name, "Mcp-Param-") {
				names = append(names, name)
			}
		}
		if len(names) > 3 {
			t.Errorf("headers: %v", names)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ran"}}}, nil
	})
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(srv.Close)
	s := wrapServer(t, "", func(cfg *Config) {
		cfg.Server = func(context.Context) (Link, error) { return NewHTTP(srv.URL, nil, "--header"), nil }
	})
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		`{"region":"eu-1","count":12,"options":{"dry":true}}`,
		`{"region":" Zürich\n","count":-3,"options":{"dry":false},"text":"t"}`,
		`{"region":"=?base64?eA==?=","count":9007199254740991}`,
		`{"region":"","count":1e3}`,
		`{"region":null,"options":{}}`,
		`{}`,
	} {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "query", Arguments: json.RawMessage(args)})
		if err != nil || res.IsError {
			t.Errorf("%s: %v, %+v", args, err, res)
		}
	}
	// No header can have this value, and the server says which argument it is.
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "query", Arguments: json.RawMessage(`{"count":1.5}`)}); err == nil || !strings.Contains(err.Error(), "Count") {
		t.Errorf("a broken number: %v", err)
	}
}

// A name that no header can have, or that is no text, marks nothing.
func TestHostileHeaderNames(t *testing.T) {
	t.Parallel()
	var schema headerSchema
	err := json.Unmarshal([]byte(`{"x-mcp-header":"Top","properties":{"a":{"x-mcp-header":"a b"},"b":{"x-mcp-header":"X\r\nY: z"},"c":{"x-mcp-header":7},"d":{"x-mcp-header":""},"e":{"properties":{"f":{"x-mcp-header":"Good"}}}}}`), &schema)
	if got := schema.collect(nil, nil); err != nil || len(got) != 1 || got[0].header != "Mcp-Param-Good" || strings.Join(got[0].path, ".") != "e.f" {
		t.Errorf("%v, %v", got, err)
	}
}
