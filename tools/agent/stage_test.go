package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// stage has everything that a loop needs, in memory.
type stage struct {
	registry *tools.Registry
	store    *mem.Store
	runner   *localRunner
	log      memConversations
}

func newStage(t *testing.T, toolset ...tools.Tool) *stage {
	t.Helper()
	s := &stage{registry: tools.NewRegistry(zerolog.Nop()), store: mem.New(offload.StoreConfig{})}
	if err := s.registry.Register(append(toolset, offload.NewReader(s.store, offload.ReaderConfig{}).Tools()...)...); err != nil {
		t.Fatal(err)
	}
	s.runner = &localRunner{registry: s.registry, offloader: offload.NewOffloader(s.store, offload.Config{}), calls: map[[2]string]func() tools.ResultEvent{}}
	return s
}

func (s *stage) agent(p agent.Provider, cfg agent.Config) *agent.Agent {
	cfg.Tools = s.registry.Definitions()
	cfg.Offloader = cmp.Or(cfg.Offloader, agent.NewHistoryOffloader(s.store))
	return agent.New(p, s.runner, &s.log, cfg)
}

// stepped is an agent that calls onStep before each step of its runs.
type stepped struct {
	*agent.Agent
	onStep func(string)
}

func (s stepped) Run(ctx context.Context, call tools.Call, prompt ...agent.Block) (agent.Outcome, error) {
	return s.Agent.Run(tracing.OnStep(ctx, s.onStep), call, prompt...)
}

// entries decodes the log of a session.
func (s *stage) entries(t *testing.T, session string) []agent.Entry {
	t.Helper()
	data, _, err := s.log.Read(t.Context(), session, 0)
	if err != nil {
		t.Fatal(err)
	}
	var entries []agent.Entry
	for _, d := range data {
		e, err := agent.DecodeEntry(d)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// recorder forwards requests and keeps them.
type recorder struct {
	agent.Provider
	mu       sync.Mutex
	requests []agent.Request
}

func (r *recorder) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	r.mu.Lock()
	r.requests = append(r.requests, req)
	r.mu.Unlock()
	return r.Provider.Complete(ctx, req)
}

// size returns the length of a request's messages as JSON.
func size(t *testing.T, req agent.Request) int {
	t.Helper()
	data, err := json.Marshal(req.Messages)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

func parseScript(t *testing.T, lines ...string) *provider.Script {
	t.Helper()
	s, err := provider.ParseScript([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type sayArgs struct {
	Text string `json:"text,omitempty"`
	N    int    `json:"n,omitempty"`
}

// newTool returns a tool whose result is that of say.
func newTool(t *testing.T, name string, effect tools.Effect, say func(ctx context.Context, call tools.Call, in sayArgs) *tools.Result) tools.Tool {
	t.Helper()
	tool, err := tools.NewTool(name, "says something", say)
	if err != nil {
		t.Fatal(err)
	}
	return tool.WithEffect(effect)
}

func run(t *testing.T, a interface {
	Run(context.Context, tools.Call, ...agent.Block) (agent.Outcome, error)
}, session, id, prompt string) agent.Outcome {
	t.Helper()
	o, err := a.Run(t.Context(), tools.Call{ID: id, Session: session}, agent.Text(prompt))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// asks returns a turn of a script that calls one tool, once for each input.
func asks(tool string, inputs ...string) string {
	var line strings.Builder
	line.WriteString(`{"tools":[`)
	for i, input := range inputs {
		if i > 0 {
			line.WriteString(",")
		}
		line.WriteString(fmt.Sprintf(`{"name":%q,"input":%s}`, tool, input))
	}
	return line.String() + "]}"
}
