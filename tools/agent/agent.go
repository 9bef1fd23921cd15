package agent

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Caller has tools called. Call returns when the call has its result; the same
// call, made again, has the same one. A *tools.Error is an answer: the call
// cannot have any other. Any other error says nothing about the call, and it is
// made again.
type ToolRunner interface {
	Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error)
}

// Config says how an Agent works. The zero value works, without tools.
type Config struct {
	// System is the system prompt.
	System string
	// Tools that the model may ask for, and no others.
	Tools []tools.Definition
	// Grant limits a run, and is passed on to its sub-agents.
	Limits Limits
	// Fresh begins each run with nothing of what was said before in its session.
	Fresh bool
	// MaxTokens bounds a turn. Default DefaultMaxTokens.
	MaxTokens int
	// ContextTokens is how many tokens a request may have, by estimate. Near
	// it the oldest tool results are offloaded. Default 150,000.
	ContextTokens int64
	// Shelf stores tool results that leave the history. Without one only those
	// that are artifacts already can leave it.
	Offloader *offload.Offloader
	// Counter estimates tokens. Default offload.RuneCounter.
	Counter offload.Counter
	// Parallel is how many calls of a turn are made at once. Default 16.
	Parallel int
	// Answered reports whether a run that has no end in its log has an answer
	// all the same, because it was cancelled before anybody took it up, say. It
	// is ended as abandoned then. Nil means no.
	HasResult func(ctx context.Context, session, run string) (bool, error)
	// Alive reports whether some process has a run in hand. Nil leaves it to
	// StaleAfter alone.
	IsRunning func(ctx context.Context, session, run string) (bool, error)
	// StaleAfter is how long another's run may be silent before it is ended as
	// abandoned, if nobody has it in hand. Default 5 min.
	StaleAfter time.Duration
	// Poll is how often the log is looked at while another run has the session.
	// Default 1 s.
	PollInterval time.Duration
	// OnStep, if not nil, is called before each step, for tests that crash there.
	OnStep func(Step)
	// Logger takes what happens to runs; what is said in them stays out.
	Log zerolog.Logger
}

// Step names a step of the loop.
type Step string

const (
	StepRead       Step = "read"
	StepAsk        Step = "ask"
	StepLogTurn    Step = "log_turn" // the model has answered, and the log does not know
	StepCall       Step = "call"
	StepLogResults Step = "log_answers"
	StepEnd        Step = "end"
	StepEnded      Step = "ended"
)

// Grant is what a run may do. A sub-agent's grant is made by the loop that
// starts it, and no part of it is larger than that loop's own.
type Limits struct {
	// Depth of the run: 0 for one that a user started.
	Depth int `json:"depth,omitempty"`
	// MaxDepth is the depth down to which sub-agents may be started. 0 is the
	// default, 2; below 0 there are none.
	MaxDepth int `json:"max_depth,omitempty"`
	// MaxChildren is how many sub-agents one run may start. Default 8.
	MaxChildren int `json:"max_children,omitempty"`
	// MaxTurns of the model. Default 50.
	MaxTurns int `json:"max_turns,omitempty"`
	// TokenBudget is how many tokens, in and out, the turns of the run may use,
	// those of its sub-agents included: they share evenly what is left, with
	// each other and with the run. 0 is no limit.
	TokenBudget int64 `json:"token_budget,omitempty"`
	// TimeoutS bounds the run, in seconds from its first moment on, deaths of
	// workers included. 0 is no limit.
	TimeoutS int64 `json:"timeout_s,omitempty"`
	// Model by its name in the worker's configuration; empty is the first.
	Model string `json:"model,omitempty"`
	// Tools by name; nil is all.
	Tools []string `json:"tools,omitempty"`
}

func (g Limits) withDefaults() Limits {
	if g.MaxDepth == 0 {
		g.MaxDepth = 2
	}
	if g.MaxChildren <= 0 {
		g.MaxChildren = 8
	}
	if g.MaxTurns <= 0 {
		g.MaxTurns = 50
	}
	return g
}

// Agent runs conversations of one model with one set of tools. It is safe for
// concurrent use.
type Agent struct {
	provider Provider
	caller   ToolRunner
	log      Conversations
	cfg      Config
	offered  map[string]tools.Definition
}

// New returns an Agent.
func New(provider Provider, caller ToolRunner, log Conversations, cfg Config) *Agent {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.ContextTokens <= 0 {
		cfg.ContextTokens = 150_000
	}
	if cfg.Counter == nil {
		cfg.Counter = offload.RuneCounter{}
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 16
	}
	if cfg.StaleAfter <= 0 {
		cfg.StaleAfter = 5 * time.Minute
	}
	if cfg.PollInterval <= 0 {
		cfg.PollInterval = time.Second
	}
	if cfg.OnStep == nil {
		cfg.OnStep = func(Step) {}
	}
	a := &Agent{provider: provider, caller: caller, log: log, cfg: cfg, offered: map[string]tools.Definition{}}
	for _, def := range cfg.Tools {
		a.offered[def.Name] = def
	}
	return a
}
