package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Names of the tools that run agents.
const (
	// AgentTool answers a prompt in the session of its call.
	AgentTool = "agent"
	// SubagentTool does a task in its own conversation and waits for the result.
	SubagentTool = "subagent"
	// SpawnTool does the same in the background.
	SpawnTool = "spawn"
)

// ToolsConfig configures the tools that run agents.
type ToolsConfig struct {
	// Models by name. DefaultModel is used if a call names none.
	Models        map[string]Provider
	DefaultModel  string
	Runner        ToolRunner
	Conversations Conversations
	// Instructions of the operator follow the system prompt. Nil means none.
	Instructions *Instructions
	// Files reads the files that users send. Nil means that prompts have no files.
	Files *offload.Reader
	// Definitions returns the tools that agents may have.
	Definitions func() []tools.Definition
	// Config of the agents. Each run has its own Tools. No run exceeds the Limits.
	Config Config
}

// Tools returns the tools agent, subagent and spawn.
func Tools(c ToolsConfig) ([]tools.Tool, error) {
	if c.Models[c.DefaultModel] == nil {
		return nil, fmt.Errorf("agent tools: there is no model %q", c.DefaultModel)
	}
	c.Config.Limits = c.Config.Limits.withDefaults()
	agent := tools.MustTool(AgentTool, "Answer a message of the user in this conversation, using tools.", c.runAgent)
	const taskHelp = " It sees only the task and nothing of this conversation, so include everything that it needs."
	subagent := tools.MustTool(SubagentTool, "Give a task to another agent and wait for its report."+taskHelp, c.runSubagent)
	spawn := tools.MustTool(SpawnTool, "Give a task to another agent in the background. You and the user get its report when the task is done."+taskHelp,
		func(ctx context.Context, call tools.Call, _ spawnArgs) *tools.Result {
			return c.callSubagent(ctx, call)
		})
	// Runs continue from their logs, so the calls may be repeated.
	ownSession := func(call tools.Call) tools.Call { return call }
	childSession := func(call tools.Call) tools.Call {
		child, _ := ChildCall(call)
		child.Session = SubagentSession(child)
		return child
	}
	return []tools.Tool{
		resumableTool{agent.WithEffect(tools.Idempotent), c.Conversations, ownSession},
		resumableTool{subagent.WithEffect(tools.Idempotent), c.Conversations, childSession},
		&spawnTool{resumableTool{spawn.WithEffect(tools.Keyed), c.Conversations, childSession}, c},
	}, nil
}

type agentArgs struct {
	Prompt   string   `json:"prompt" jsonschema:"the user's message"`
	System   string   `json:"system,omitempty" jsonschema:"the system prompt; default that of the worker"`
	Model    string   `json:"model,omitempty" jsonschema:"the name of a model in the worker's configuration; default the first"`
	Tools    []string `json:"tools,omitempty" jsonschema:"names of the tools that the agent may use; default all"`
	MaxTurns int      `json:"max_turns,omitempty" jsonschema:"the maximum number of the model's turns; at most the worker's limit"`
	TimeoutS int64    `json:"timeout_s,omitempty" jsonschema:"the maximum duration in seconds"`
	Files    []string `json:"files,omitempty" jsonschema:"ids of artifacts of this session that the user sent with the message; the model sees pictures among them"`
	Fresh    bool     `json:"fresh,omitempty" jsonschema:"ignore the earlier messages of the session"`
}

// runAgent executes a call of the agent tool.
func (c ToolsConfig) runAgent(ctx context.Context, call tools.Call, in agentArgs) *tools.Result {
	if strings.TrimSpace(in.Prompt) == "" && len(in.Files) == 0 {
		return tools.Failure(tools.Errorf(tools.CodeInvalidArguments, "the prompt is empty"))
	}
	limits := c.Config.Limits
	limits.Model = in.Model
	limits.MaxTurns = smallerLimit(limits.MaxTurns, in.MaxTurns)
	limits.TimeoutS = smallerLimit(limits.TimeoutS, in.TimeoutS)
	c.Config.Fresh = in.Fresh
	a, err := c.newAgent(limits, in.System, in.Tools)
	var prompt []Block
	if err == nil {
		prompt, err = c.promptBlocks(ctx, call, in)
	}
	if err != nil && !c.goesOn(ctx, a, call.SessionToken(), call.IDToken()) {
		return tools.Failure(err)
	}
	o, err := a.Run(ctx, call, prompt...)
	if err != nil {
		return tools.Failure(err)
	}
	res := &tools.Result{ForLLM: cmp.Or(o.Reply, noReply)}
	if err := o.Err(); err != nil {
		res = tools.Failure(err)
		if o.Reply != "" {
			res.ForLLM += "\nIts last text: " + o.Reply
		}
	}
	// The model writes Markdown; the reason of a failure is plain text.
	res.ForUser, res.Markdown = o.ForUser, o.Reply != "" && strings.HasPrefix(o.ForUser, o.Reply)
	return res
}

// goesOn reports whether an agent can go on with a run of a session that has begun: the log has its prompt and its tools, and neither the
// files of the user nor all the tools need to be here now.
func (c ToolsConfig) goesOn(ctx context.Context, a *Agent, session, run string) bool {
	if a == nil {
		return false
	}
	log, _, err := c.Conversations.Read(ctx, session, 0)
	entries, _ := DecodeEntries(log) // the run says which one is damaged
	return err == nil && slices.ContainsFunc(entries, func(e Entry) bool { return e.Kind == KindUser && e.Run == run })
}

// newAgent returns the agent for one run. If it lacks a tool of toolNames, there is also an error.
func (c ToolsConfig) newAgent(limits Limits, system string, toolNames []string) (*Agent, error) {
	model := cmp.Or(limits.Model, c.DefaultModel)
	provider := c.Models[model]
	if provider == nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "unknown model %q; known are %q", tools.Excerpt(model, 80), slices.Sorted(maps.Keys(c.Models)))
	}
	cfg := c.Config
	cfg.Limits, cfg.System = limits, cmp.Or(system, cfg.System)
	cfg.Tools = nil
	if c.Instructions != nil {
		text, err := c.Instructions.Read()
		if err != nil {
			return nil, err
		}
		cfg.System, cfg.InstructionFiles = strings.TrimSpace(cfg.System+"\n\n"+text.Text), text.Files
	}
	for _, def := range c.Definitions() {
		if limits.allowsTool(def.Name) {
			cfg.Tools = append(cfg.Tools, withoutLimitsArg(def))
		}
	}
	var err error
	if toolNames != nil {
		cfg.Tools, err = selectTools(cfg.Tools, toolNames)
	}
	return New(provider, c.Runner, c.Conversations, cfg), err
}

// selectTools returns the named tools, each once, and an error for the first one that is missing.
func selectTools(defs []tools.Definition, names []string) ([]tools.Definition, error) {
	known := make([]string, len(defs))
	for i, def := range defs {
		known[i] = def.Name
	}
	var selected []tools.Definition
	var missing error
	for i, name := range names {
		switch k := slices.Index(known, name); {
		case k < 0 && missing == nil:
			missing = tools.Errorf(tools.CodeInvalidArguments, "an agent cannot have the tool %q; it can have %q", tools.Excerpt(name, 80), known)
		case k >= 0 && !slices.Contains(names[:i], name):
			selected = append(selected, defs[k])
		}
	}
	return selected, missing
}
