package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
)

// Names of the tools that run agents.
const (
	// AgentTool answers a prompt in the session of its call.
	AgentTool = "agent"
	// SubagentTool does a task in a conversation of its own and waits for it.
	SubagentTool = "subagent"
	// SpawnTool does so in the background.
	SpawnTool = "spawn"
)

func startsAgents(tool string) bool { return tool == SubagentTool || tool == SpawnTool }

// Setup is what the tools that run agents are made of.
type ToolsConfig struct {
	// Models by name; Default is the one that is taken if none is named.
	Models        map[string]Provider
	DefaultModel  string
	Runner        ToolRunner
	Conversations Conversations
	// Definitions lists the tools that agents may be given.
	Definitions func() []tools.Definition
	// Config of the agents. Its Tools are set for each run; its Grant is the
	// most that any of them may do.
	Config Config
}

// Tools returns the tools agent, subagent and spawn.
func Tools(s ToolsConfig) ([]tools.Tool, error) {
	if s.Models[s.DefaultModel] == nil {
		return nil, fmt.Errorf("agent tools: there is no model %q", s.DefaultModel)
	}
	s.Config.Limits = s.Config.Limits.withDefaults()
	run, err := tools.NewTool(AgentTool, "Answer a message of the user in this conversation, with the help of tools.",
		func(ctx context.Context, call tools.Call, in agentArgs) *tools.Result { return s.answer(ctx, call, in) })
	if err != nil {
		return nil, err
	}
	sub, err := tools.NewTool(SubagentTool, "Have a task done by another agent, in a conversation of its own, and wait for its report. "+
		"It knows nothing but the task, so say all that it needs.",
		func(ctx context.Context, call tools.Call, in taskArgs) *tools.Result { return s.report(ctx, call, in) })
	if err != nil {
		return nil, err
	}
	spawn, err := tools.NewTool(SpawnTool, "Have a task done by another agent in the background; the user gets its report when it is done. "+
		"It knows nothing but the task, so say all that it needs.",
		func(ctx context.Context, call tools.Call, _ taskArgs) *tools.Result { return s.child(ctx, call) })
	if err != nil {
		return nil, err
	}
	// Runs are taken up from their logs, so that calls may run again.
	inSession := func(call tools.Call) tools.Call { return call }
	inSubSession := func(call tools.Call) tools.Call { call.Session = SubagentSession(call); return call }
	ofChild := func(call tools.Call) tools.Call { return inSubSession(childOf(call)) }
	return []tools.Tool{
		resumable{run.WithEffect(tools.Idempotent), s.Conversations, inSession},
		resumable{sub.WithEffect(tools.Idempotent), s.Conversations, inSubSession},
		&spawner{resumable: resumable{spawn.WithEffect(tools.Keyed), s.Conversations, ofChild}, setup: s},
	}, nil
}

type agentArgs struct {
	Prompt   string   `json:"prompt" jsonschema:"what the user says"`
	System   string   `json:"system,omitempty" jsonschema:"the system prompt; default the worker's"`
	Model    string   `json:"model,omitempty" jsonschema:"a model by its name in the worker's configuration; default the first"`
	Tools    []string `json:"tools,omitempty" jsonschema:"the tools that the agent gets; default all"`
	MaxTurns int      `json:"max_turns,omitempty" jsonschema:"after how many turns of the model the agent stops; at most the worker's limit"`
	TimeoutS int64    `json:"timeout_s,omitempty" jsonschema:"how many seconds the agent has"`
	Fresh    bool     `json:"fresh,omitempty" jsonschema:"begin without what was said before in the session"`
}

type taskArgs struct {
	Task     string   `json:"task" jsonschema:"what is to be done, with all that must be known for it"`
	Label    string   `json:"label,omitempty" jsonschema:"a short name of the task, for the report"`
	System   string   `json:"system,omitempty" jsonschema:"the system prompt; default the worker's"`
	Tools    []string `json:"tools,omitempty" jsonschema:"the tools that the agent gets, and no others; default all that you have"`
	MaxTurns int      `json:"max_turns,omitempty" jsonschema:"after how many turns the agent stops"`
	Limits   *Limits  `json:"grant,omitempty" jsonschema:"set by the loop that starts a sub-agent"`
}

// answer is the agent tool.
func (s ToolsConfig) answer(ctx context.Context, call tools.Call, in agentArgs) *tools.Result {
	if strings.TrimSpace(in.Prompt) == "" {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "the prompt is empty"))
	}
	grant := s.Config.Limits
	grant.Model = in.Model
	grant.MaxTurns = least(grant.MaxTurns, in.MaxTurns)
	grant.TimeoutS = least(grant.TimeoutS, in.TimeoutS)
	s.Config.Fresh = in.Fresh
	a, err := s.agent(grant, in.System, in.Tools)
	if err != nil {
		return tools.Failure(err)
	}
	o, err := a.Run(ctx, call, Text(in.Prompt))
	if err != nil {
		return tools.Failure(err)
	}
	res := &tools.Result{ForLLM: cmp.Or(o.Reply, noReply)}
	if err := o.Err(); err != nil {
		res = tools.Failure(err)
		if o.Reply != "" {
			res.ForLLM += "\nIts last words: " + o.Reply
		}
	}
	// The model's own words are Markdown; those of a tool may be anything.
	res.ForUser, res.Markdown = o.ForUser, o.Reply != "" && strings.HasPrefix(o.ForUser, o.Reply)
	return res
}

// noReply stands for a final turn without a word. The user is not told: he may
// have what he asked for, by a message or a file.
const noReply = "(the agent ended without an answer)"

// report is the subagent tool. The conversation has a session of its own, which
// derives from the call.
func (s ToolsConfig) report(ctx context.Context, call tools.Call, in taskArgs) *tools.Result {
	if strings.TrimSpace(in.Task) == "" {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "the task is empty"))
	}
	grant := s.Config.Limits
	if in.Limits != nil {
		grant = grant.within(*in.Limits)
	}
	grant.MaxTurns = least(grant.MaxTurns, in.MaxTurns)
	a, err := s.agent(grant, in.System, in.Tools)
	if err != nil {
		return tools.Failure(err)
	}
	call.Session = SubagentSession(call)
	o, err := a.Run(ctx, call, Text(in.Task))
	if err != nil {
		return tools.Failure(err)
	}
	return reportOf(o, in.Label)
}

// SubSession is the session of the conversation that a subagent call has.
func SubagentSession(call tools.Call) string {
	return fmt.Sprintf("sub/%s/%s", call.SessionToken(), call.IDToken())
}

// maxSummary is how much of a report the user gets, in characters.
const maxSummary = 500

func reportOf(o Outcome, label string) *tools.Result {
	if label == "" {
		label = "(unnamed)"
	}
	var used []string
	for _, name := range slices.Sorted(maps.Keys(o.Tools)) {
		used = append(used, fmt.Sprintf("%s %dx", name, o.Tools[name]))
	}
	if used == nil {
		used = []string{"none"}
	}
	details := fmt.Sprintf("Label: %s\nTurns: %d\nTools used: %s\nTokens: %d in, %d out\n",
		label, o.Turns, strings.Join(used, ", "), o.Usage.Input, o.Usage.Output)
	if o.SubagentTokens > 0 {
		details += fmt.Sprintf("Tokens of its own sub-agents: %d\n", o.SubagentTokens)
	}
	if err := o.Err(); err != nil {
		res := tools.Failure(err)
		res.ForLLM = fmt.Sprintf("Subagent task not completed: %s\n%sLast words:\n%s", err, details, o.Reply)
		res.ForUser = summary(fmt.Sprintf("The task %s was not completed: %s", label, err))
		return res
	}
	return &tools.Result{ForLLM: fmt.Sprintf("Subagent task completed.\n%sResult:\n%s", details, cmp.Or(o.Reply, noReply)), ForUser: summary(o.Reply), Markdown: true}
}

func summary(text string) string {
	if utf8.RuneCountInString(text) <= maxSummary {
		return text
	}
	return string([]rune(text)[:maxSummary]) + "..."
}

// agent makes an agent for one run.
func (s ToolsConfig) agent(grant Limits, system string, wanted []string) (*Agent, error) {
	name := grant.Model
	if name == "" {
		name = s.DefaultModel
	}
	provider := s.Models[name]
	if provider == nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown model %q; known are %q", tools.Excerpt(name, 80), slices.Sorted(maps.Keys(s.Models)))
	}
	cfg := s.Config
	cfg.Limits = grant
	if system != "" {
		cfg.System = system
	}
	cfg.Tools = nil
	for _, def := range s.Definitions() {
		if grant.allows(def.Name) {
			cfg.Tools = append(cfg.Tools, shown(def))
		}
	}
	if wanted != nil {
		all := cfg.Tools
		cfg.Tools = nil
		for _, name := range wanted {
			i := slices.IndexFunc(all, func(d tools.Definition) bool { return d.Name == name })
			if i < 0 {
				return nil, tools.Errorf(tools.CodeInvalidArguments, "there is no tool %q to be given to an agent; there are %q", tools.Excerpt(name, 80), names(all))
			}
			if !slices.Contains(names(cfg.Tools), name) {
				cfg.Tools = append(cfg.Tools, all[i])
			}
		}
	}
	return New(provider, s.Runner, s.Conversations, cfg), nil
}

func names(defs []tools.Definition) []string {
	list := make([]string, len(defs))
	for i, def := range defs {
		list[i] = def.Name
	}
	return list
}

// allows reports whether a run may have a tool.
func (g Limits) allows(tool string) bool {
	switch {
	case tool == AgentTool: // it would speak in the user's name
		return false
	case startsAgents(tool) && g.Depth >= g.MaxDepth:
		return false
	}
	return g.Tools == nil || slices.Contains(g.Tools, tool)
}

// within is the smaller of two grants, at the depth of the other.
func (g Limits) within(o Limits) Limits {
	o.Depth = max(o.Depth, 0)
	o.MaxDepth = min(g.MaxDepth, o.withDefaults().MaxDepth)
	o.MaxChildren = least(g.MaxChildren, o.MaxChildren)
	o.MaxTurns = least(g.MaxTurns, o.MaxTurns)
	o.TokenBudget = least(g.TokenBudget, o.TokenBudget)
	o.TimeoutS = least(g.TimeoutS, o.TimeoutS)
	if o.Tools == nil {
		o.Tools = g.Tools
	}
	return o
}

// least is the smaller of two limits, of which 0 is none.
func least[N int | int64](a, b N) N {
	switch {
	case b <= 0:
		return a
	case a <= 0:
		return b
	}
	return min(a, b)
}

// shown is what models see of a tool: not the argument that only loops may set.
func shown(def tools.Definition) tools.Definition {
	if !startsAgents(def.Name) || def.Parameters == nil {
		return def
	}
	schema := *def.Parameters
	schema.Properties = maps.Clone(schema.Properties)
	delete(schema.Properties, "grant")
	schema.PropertyOrder = slices.DeleteFunc(slices.Clone(schema.PropertyOrder), func(name string) bool { return name == "grant" })
	def.Parameters = &schema
	return def
}

// DepthOf is the depth at which a subagent call runs.
func DepthOf(call tools.Call) int {
	var in struct {
		Limits Limits `json:"grant"`
	}
	if json.Unmarshal(call.Args, &in) != nil {
		return 0
	}
	return max(in.Limits.Depth, 0)
}

// spawner is the spawn tool.
type spawner struct {
	resumable
	setup ToolsConfig
}

// ExecuteAsync has the task done by a subagent call whose id derives from this
// one, so that it is the same whoever makes it how often.
func (t *spawner) ExecuteAsync(ctx context.Context, call tools.Call, callback tools.AsyncCallback) *tools.Result {
	var in taskArgs
	if err := json.Unmarshal(call.Args, &in); err != nil || strings.TrimSpace(in.Task) == "" {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "the task is empty"))
	}
	go func() { callback(ctx, t.setup.child(ctx, call)) }()
	return tools.AsyncResult("Subagent spawned, will report back")
}

// childOf is the subagent call of a spawn call.
func childOf(call tools.Call) tools.Call {
	call.ID, call.Tool, call.Action = tools.Token(call.ID+"/"+SubagentTool), SubagentTool, tools.ActionAgent
	return call
}

// child makes the subagent call of a spawn call and waits for its result.
func (s ToolsConfig) child(ctx context.Context, call tools.Call) *tools.Result {
	event, err := s.Runner.Call(ctx, childOf(call))
	if err != nil {
		switch {
		case ctx.Err() == nil:
		case errors.Is(err, ctx.Err()): // the cause says more, and once
			err = context.Cause(ctx)
		default:
			err = errors.Join(context.Cause(ctx), err)
		}
		return tools.Failure(err)
	}
	res := event.Result
	if res.IsError && event.Error != nil {
		res.Err = &tools.Error{Code: event.Error.Code, Message: event.Error.Message}
	}
	return &res
}
