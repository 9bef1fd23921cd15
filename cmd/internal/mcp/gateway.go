// Package mcp offers the tools of all workers to MCP clients.
//
// A Gateway has no state that matters: a call is stored on the bus before anything
// waits for it, and tasks and artifacts are read from the bus. So any number of
// gateways can serve the same clients, in any order.
//
//	gateway    the server of each session, and the list of tools; schemas has what does not fit into the list
//	call       tools/call: submit, progress, cancellation
//	cancel     cancellation over HTTP by clients of older revisions
//	result     results as content blocks; complete marks them
//	task       the extension io.modelcontextprotocol/tasks
//	approval   approvals as forms for the client's user
//	resources  artifacts as resources
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/artifacts"
	"github.com/stevedore-bus/stevedore/tools"
)

// Config configures a Gateway. The zero value works.
type Config struct {
	// Version is the version that clients see.
	Version string
	// TaskAfter is how long a call runs before a client that supports tasks gets a
	// task. Default 3 seconds.
	TaskAfter time.Duration
	// Wait is how long a client without tasks waits for a result. Then it gets the id
	// of the call, and get_task_result returns the result later. Default 50 seconds,
	// because many clients give up after a minute.
	Wait time.Duration
	// Refresh is the time between two requests for the tools of the workers. Default
	// 10 seconds.
	Refresh time.Duration
	Log     zerolog.Logger
}

// Gateway serves MCP clients. It is safe for concurrent use.
type Gateway struct {
	bus *bus.Bus
	cfg Config

	asking  singleflight.Group            // the request for the tools
	schemas map[string]*jsonschema.Schema // of tools whose offers have none
	closing atomic.Bool                   // a call that a client does not wait for any more goes on
	mu      sync.Mutex
	offers  map[string]rpc.ToolInfo
	asked   time.Time // when offers was read
	servers map[string]*server
}

// server is the MCP server of a session.
type server struct {
	*mcp.Server
	listed map[string]string // the definitions that clients see, by name
}

// maxServers is how many servers a gateway keeps. A server is only a list of tools, so
// it can be made again.
const maxServers = 1000

// New returns a gateway to the workers on b.
func New(b *bus.Bus, cfg Config) *Gateway {
	cfg.TaskAfter, cfg.Wait = cmp.Or(cfg.TaskAfter, 3*time.Second), cmp.Or(cfg.Wait, 50*time.Second)
	cfg.Refresh = cmp.Or(cfg.Refresh, 10*time.Second)
	return &Gateway{bus: b, cfg: cfg, servers: map[string]*server{}}
}

// Run keeps the list of tools up to date until ctx ends.
func (g *Gateway) Run(ctx context.Context) error {
	for tools.Sleep(ctx, g.cfg.Refresh) == nil {
		if err := g.refresh(ctx, 0); err != nil && ctx.Err() == nil {
			g.cfg.Log.Warn().Err(err).Msg("cannot list the tools of the workers")
		}
	}
	return nil
}

// Close makes running calls go on although their clients are gone.
func (g *Gateway) Close() { g.closing.Store(true) }

// Server returns the server of the session with this name. The session decides which artifacts and tasks a client
// can see, so it must be authenticated.
func (g *Gateway) Server(ctx context.Context, session string) (*mcp.Server, error) {
	// If the workers are silent, the client has the tools that are known; Run asks again.
	if err := g.refresh(ctx, g.cfg.Refresh); err != nil && !errors.Is(err, task.ErrSilent) {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.servers[session]; s != nil {
		return s.Server, nil
	}
	if len(g.servers) >= maxServers {
		clear(g.servers)
	}
	s, err := g.newServer(session)
	if err != nil {
		return nil, err
	}
	g.servers[session] = s
	g.updateLocked(s)
	return s.Server, nil
}

func (g *Gateway) newServer(session string) (*server, error) {
	caps := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}, Resources: &mcp.ResourceCapabilities{}}
	caps.AddExtension(tasksExtension, map[string]any{})
	s := mcp.NewServer(&mcp.Implementation{Name: "stevedore", Title: "Stevedore", Version: cmp.Or(g.cfg.Version, "0")}, &mcp.ServerOptions{
		Capabilities: caps, PageSize: 1000,
		Instructions: "A long tool result is stored as an artifact, and you see a reference with its id and a preview. Read what you need " +
			"of it with grep_knowledge and get_knowledge_by_lines.",
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.CacheScope = "private"
			c.TTLMs = int(g.cfg.Refresh.Milliseconds())
		},
	})
	conn := &client{gateway: g, name: session, session: tools.Token(session)}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			var res mcp.Result
			var err error
			switch r := req.(type) {
			case *mcp.CallToolRequest:
				res, err = conn.call(ctx, r)
			case *mcp.ReadResourceRequest:
				res, err = conn.read(ctx, r)
			case *mcp.ListResourcesRequest:
				res, err = conn.list(ctx, r)
			case *mcp.ListResourceTemplatesRequest:
				res = &mcp.ListResourceTemplatesResult{Cacheable: private, ResourceTemplates: []*mcp.ResourceTemplate{artifacts.Template}}
			case *mcp.ListToolsRequest:
				res, err = next(ctx, method, req)
			default:
				return next(ctx, method, req)
			}
			return completed(req, res, err)
		}
	})
	return &server{Server: s, listed: map[string]string{}}, conn.addTaskMethods(s)
}

// client is what one session may do.
type client struct {
	gateway *Gateway
	name    string // of the session, as its calls have it
	session string // the token of the name
}

// askTimeout limits a request for the tools of the workers.
const askTimeout = 30 * time.Second

// refresh asks the workers for their tools, unless the answer is younger than age.
// Clients that come at the same time wait for the same answer, and one that gives up
// does not end the request.
func (g *Gateway) refresh(ctx context.Context, age time.Duration) error {
	if g.fresh(age) {
		return nil
	}
	ask := func() (any, error) {
		if g.fresh(age) { // another request ended just now
			return nil, nil
		}
		return nil, g.ask()
	}
	select {
	case res := <-g.asking.DoChan("", ask):
		return res.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fresh reports whether the tools are known and younger than age. If there are none, workers
// may be about to start.
func (g *Gateway) fresh(age time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.offers) > 0 && time.Since(g.asked) < age
}

func (g *Gateway) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	list, err := rpc.ListTools(ctx, g.bus, tools.OfferQuery{})
	if err == nil {
		err = g.addSchemas(ctx, list.Tools)
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.offers, g.asked = map[string]rpc.ToolInfo{}, time.Now()
	for _, t := range list.Tools {
		if known, ok := g.offers[t.Name]; ok { // workers of different versions
			known.Queues = append(slices.Clone(known.Queues), t.Queues...)
			g.offers[t.Name] = known
			continue
		}
		g.offers[t.Name] = t
	}
	for _, s := range g.servers {
		g.updateLocked(s)
	}
	return nil
}

// updateLocked changes the tools of a server; the SDK tells its clients.
func (g *Gateway) updateLocked(s *server) {
	want := map[string]*mcp.Tool{}
	for _, t := range g.offers {
		want[t.Name] = toolOf(t.OfferedTool)
	}
	for _, t := range taskTools {
		if want[t.Name] == nil {
			want[t.Name] = t
		}
	}
	for name := range s.listed {
		if want[name] == nil {
			s.RemoveTools(name)
			delete(s.listed, name)
		}
	}
	for name, t := range want {
		definition, err := json.Marshal(t)
		if err != nil || s.listed[name] == string(definition) {
			continue
		}
		s.listed[name] = string(definition)
		s.AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			panic("the middleware answers all calls")
		})
	}
}

// toolOf returns a tool for MCP clients. Its annotations follow from its effect.
func toolOf(t tools.OfferedTool) *mcp.Tool {
	schema := t.Parameters
	if schema == nil || schema.Type != "object" { // as MCP demands
		schema = &jsonschema.Schema{Type: "object"}
	}
	tool := &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: schema, Annotations: &mcp.ToolAnnotations{}}
	switch {
	case slices.Contains(artifacts.Family, t.Name):
		tool.Annotations.ReadOnlyHint, tool.Annotations.IdempotentHint, tool.Annotations.OpenWorldHint = true, true, new(false)
	case t.Effect == tools.Idempotent:
		tool.Annotations.IdempotentHint, tool.Annotations.DestructiveHint = true, new(false)
	default:
		tool.Annotations.DestructiveHint = new(true)
	}
	return tool
}

// tool returns a tool that a worker offers. A tool that is not known may be new.
func (g *Gateway) tool(ctx context.Context, name string) (rpc.ToolInfo, bool, error) {
	for _, age := range []time.Duration{g.cfg.Refresh, 0} {
		err := g.refresh(ctx, age)
		if err != nil && !errors.Is(err, task.ErrSilent) {
			return rpc.ToolInfo{}, false, err
		}
		g.mu.Lock()
		t, ok := g.offers[name]
		g.mu.Unlock()
		if ok || err != nil {
			return t, ok, err
		}
	}
	return rpc.ToolInfo{}, false, nil
}
