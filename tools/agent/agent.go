package agent

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// ToolRunner runs tool calls. Call returns when the call has its result; a
// repeated call has the same result. A *tools.Error is final: the call cannot have
// another result. After any other error the loop repeats the call.
type ToolRunner interface {
	Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error)
}

// Config says how an Agent works. The zero value works, without tools.
type Config struct {
	// System is the system prompt.
	System string
	// InstructionFiles are the files that System comes from; the log names them.
	InstructionFiles []string
	// Tools are all tools that the model may call.
	Tools []tools.Definition
	// Limits of a run and of its sub-agents.
	Limits Limits
	// Fresh: the model sees nothing of the session's earlier runs.
	Fresh bool
	// MaxTokens bounds a turn. Default DefaultMaxTokens.
	MaxTokens int
	// ContextTokens is how many tokens a request may have, by estimate. When a
	// request nears it, the loop offloads the oldest tool results and, if that is not
	// enough, replaces the oldest turns by a summary. Default 150,000.
	ContextTokens int64
	// Offloader stores tool results that leave the history; see
	// NewHistoryOffloader. If it is nil, only results that are already artifacts
	// leave the history.
	Offloader *offload.Offloader
	// ToolOutput says which tool results the user sees in addition to the reply. A
	// run keeps the setting that it started with. Default OutputLast.
	ToolOutput ToolOutput
	// SendOutput sends ForUser of a call's result to the user. If it is called again
	// for the same call, it sends nothing. Nil means that the user sees no results.
	SendOutput func(ctx context.Context, call tools.Call, res tools.Result) error
	// EndOf returns why a run ended whose call has a result although its log has no end:
	// Cancelled if a client cancelled the call, and otherwise Abandoned. The loop then ends
	// that run. It is empty if the call has no result. Nil means that no call has one.
	EndOf func(ctx context.Context, call tools.CallKey) (Reason, error)
	// IsRunning reports whether a process executes the run of a call. If it is nil, the loop
	// uses only StaleAfter.
	IsRunning func(ctx context.Context, call tools.CallKey) (bool, error)
	// Parked, if not nil, returns until when the run of a call is parked: no process executes
	// it, but one will continue it.
	Parked func(ctx context.Context, call tools.CallKey) (until time.Time, ok bool, err error)
	// Earlier, if not nil, yields the runs of a session whose calls were accepted before that of a
	// run and may have no result yet. The run starts after they have ended. An error is the last element.
	Earlier func(ctx context.Context, session, run string) iter.Seq2[string, error]
	// CheckBudget, if not nil, is called before each turn of the model. An error with
	// CodeCostBudget ends the run.
	CheckBudget func(ctx context.Context, session string) error
	// OutageTimeout is how long a run waits for a provider that fails temporarily, counted
	// from the first failure. Until then, Run returns a *tools.Pause after each attempt. A
	// negative value means that the run fails instead. Default a day.
	OutageTimeout time.Duration
	// StaleAfter is how long another run may append nothing before the loop ends it
	// as abandoned, if no process executes it. Default 5 min.
	StaleAfter time.Duration
	// PollInterval is how often the loop reads the log while another run has the
	// session. Default 1 s.
	PollInterval time.Duration
	// Log receives events of runs, without the texts of the conversation.
	Log zerolog.Logger
}

// Agent runs conversations of one model with one set of tools. It is safe for
// concurrent use.
type Agent struct {
	provider Provider
	runner   ToolRunner
	log      Conversations
	cfg      Config
	tools    map[string]tools.Definition
}

// New returns an Agent.
func New(provider Provider, runner ToolRunner, log Conversations, cfg Config) *Agent {
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.MaxTokens = cmp.Or(max(cfg.MaxTokens, 0), DefaultMaxTokens)
	cfg.ContextTokens = cmp.Or(max(cfg.ContextTokens, 0), 150_000)
	cfg.StaleAfter = cmp.Or(max(cfg.StaleAfter, 0), 5*time.Minute)
	cfg.OutageTimeout = cmp.Or(cfg.OutageTimeout, 24*time.Hour)
	cfg.PollInterval = cmp.Or(max(cfg.PollInterval, 0), time.Second)
	a := &Agent{provider: provider, runner: runner, log: log, cfg: cfg, tools: map[string]tools.Definition{}}
	for _, def := range cfg.Tools {
		a.tools[def.Name] = def
	}
	return a
}
