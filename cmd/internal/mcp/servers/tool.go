package servers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools"
)

// tool is a tool of a server.
type tool struct {
	server *Server
	name   string // on the server
	def    tools.Definition
}

// maxDescription is the longest description that a model sees, in bytes.
const maxDescription = 8000

func (s *Server) newTool(t *mcp.Tool) *tool {
	effect := tools.Once
	if a := t.Annotations; a != nil && (a.ReadOnlyHint || a.IdempotentHint) {
		effect = tools.Idempotent
	}
	return &tool{server: s, name: t.Name, def: tools.Definition{
		Name: toolName(s.cfg.Name, t.Name), Description: tools.Excerpt(t.Description, maxDescription),
		Parameters: schemaOf(t.InputSchema), Effect: effect, AcceptsArtifacts: true,
	}}
}

// toolName returns NAME_tool as a token. Names that are too long, or have other
// characters, get a part of their hash, so that they stay different.
func toolName(server, name string) string {
	full := server + "_" + name
	if tools.IsToken(full) {
		return full
	}
	safe := strings.Map(func(r rune) rune {
		if r < 0x80 && tools.IsToken("a"+string(r)) {
			return r
		}
		return '_'
	}, full)
	sum := sha256.Sum256([]byte(full))
	return safe[:min(len(safe), 55)] + "_" + hex.EncodeToString(sum[:4])
}

// schemaOf returns a schema that the registry can check. If it cannot, the server
// checks the arguments.
func schemaOf(input any) *jsonschema.Schema {
	object := &jsonschema.Schema{Type: "object"}
	data, err := json.Marshal(input)
	if err != nil || len(data) > 1<<20 {
		return object
	}
	var schema jsonschema.Schema
	if json.Unmarshal(data, &schema) != nil {
		return object
	}
	schema.Schema = "" // the registry knows one draft
	if _, err := schema.Resolve(nil); err != nil {
		return object
	}
	return &schema
}

// Definition describes the tool.
func (t *tool) Definition() tools.Definition { return t.def }

// Execute calls the tool. The proxy repeats the call if the server ended and the tool is
// idempotent.
func (t *tool) Execute(ctx context.Context, call tools.Call) *tools.Result {
	s := t.server
	params := &mcp.CallToolParams{Name: t.name, Arguments: call.Args}
	if len(call.Args) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	token := rand.Text()
	s.watched.Store(token, ctx)
	defer s.watched.Delete(token)
	params.SetProgressToken(token)
	got, err := s.session.Load().CallTool(ctx, params) // the tool was listed, so there is a session
	if err == nil {
		return resultOf(got)
	}
	if ctx.Err() != nil {
		return tools.Failure(ctx.Err())
	}
	if e, ok := answered(err); ok {
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the MCP server %s refused the call: %v", s.cfg.Name,
			s.redact(errors.New(tools.Excerpt(e.Message, 2000)))))
	}
	return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the MCP server %s is not running: %v; %s may have acted", s.cfg.Name, s.redact(err), call.Tool))
}

// progress passes the progress of a call on.
func (s *Server) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	if ctx, ok := s.watched.Load(token); ok {
		tools.ReportProgress(ctx.(context.Context), tools.Progress{Message: tools.Excerpt(r.Params.Message, 500), Done: r.Params.Progress, Total: r.Params.Total})
	}
}
