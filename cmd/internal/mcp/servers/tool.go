package servers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
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
	if a := t.Annotations; a != nil && a.IdempotentHint { // the proxy has read both hints
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
	data, _ := json.Marshal(input) // it was decoded from JSON
	schema := new(jsonschema.Schema)
	if len(data) > 1<<20 || json.Unmarshal(data, schema) != nil {
		return object
	}
	schema.Schema = "" // the registry knows one draft
	if _, err := schema.Resolve(nil); err != nil {
		return object
	}
	return schema
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
	c := &calling{ctx: ctx, call: call}
	s.watched.Store(token, c)
	defer s.watched.Delete(token)
	params.SetProgressToken(token)
	end := s.watch(c)
	got, err := s.session.Load().CallTool(ctx, params) // the tool was listed, so there is a session
	end()
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
	if !errors.Is(err, mcp.ErrConnectionClosed) {
		err = fmt.Errorf("it answered a call of %s with something that is not the result of a tool", call.Tool)
		trouble.Report(ctx, trouble.MCPCall, s.cfg.Name, err)
		return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the MCP server %s is defective: %v; it may have acted", s.cfg.Name, err))
	}
	return tools.Failure(tools.Errorf(tools.CodeToolFailed, "the MCP server %s is not running: %v; %s may have acted", s.cfg.Name, s.redact(err), call.Tool))
}

// calling is a call that runs.
type calling struct {
	ctx   context.Context
	call  tools.Call
	heard atomic.Int64 // messages about its progress
}

// watch reports a server that is silent about a call for longer than it may take to start, and does not answer a ping
// either, or has written something else. If the call is then cancelled, the link to the server ends, and it is started
// again. end says that the call has ended.
func (s *Server) watch(c *calling) (end func()) {
	ctx, cancel := context.WithCancel(c.ctx)
	dropped := s.dropped.Load() // before the call can be answered
	var watching sync.WaitGroup
	watching.Go(func() {
		hangs := false
		for heard := int64(0); tools.Sleep(ctx, s.cfg.Timeout) == nil; heard = c.heard.Load() {
			pinging, stop := context.WithTimeout(ctx, s.cfg.Timeout/6)
			err := s.session.Load().Ping(pinging, nil)
			stop()
			silent := c.heard.Load() == heard
			hangs = silent && errors.Is(err, context.DeadlineExceeded)
			also := "or a ping"
			if !hangs {
				also = "and has written something that is not a message"
			}
			err = nil
			if hangs || silent && s.dropped.Load() > dropped {
				err = fmt.Errorf("for %s it has not answered a call of %s (%s in the session %s) %s", s.cfg.Timeout, c.call.Tool, c.call.ID, c.call.Session, also)
			}
			trouble.Report(ctx, trouble.MCPCall, s.cfg.Name, err)
		}
		trouble.Report(ctx, trouble.MCPCall, s.cfg.Name, nil)
		if link := s.current.Load(); hangs && c.ctx.Err() != nil && link != nil {
			link.Close()
		}
	})
	return func() { cancel(); watching.Wait() }
}

// progress passes the progress of a call on.
func (s *Server) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	if c, ok := s.watched.Load(token); ok {
		c.(*calling).heard.Add(1)
		tools.ReportProgress(c.(*calling).ctx, tools.Progress{Message: tools.Excerpt(r.Params.Message, 500), Done: r.Params.Progress, Total: r.Params.Total})
	}
}
