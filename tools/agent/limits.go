package agent

import (
	"cmp"
	"slices"
)

// Limits bound a run. The loop computes the limits of a sub-agent, and none of
// them exceeds its own.
type Limits struct {
	// Name of a sub-agent for people: the name of the agent that started it, a slash, and a number.
	Name string `json:"name,omitempty"`
	// Depth of the run: 0 if a user started it.
	Depth int `json:"depth,omitempty"`
	// MaxDepth is the largest depth of sub-agents. Default 2; a negative value
	// means no sub-agents.
	MaxDepth int `json:"max_depth,omitempty"`
	// MaxChildren is how many sub-agents one run may start. Default 8.
	MaxChildren int `json:"max_children,omitempty"`
	// MaxTurns is how many turns the model has. Default 50.
	MaxTurns int `json:"max_turns,omitempty"`
	// TokenBudget is how many tokens, input and output, the run and its sub-agents
	// may use. The sub-agents of a turn and the run share the rest evenly. 0 means
	// no limit.
	TokenBudget int64 `json:"token_budget,omitempty"`
	// TimeoutS bounds the run, in seconds since its start, restarts included. 0
	// means no limit.
	TimeoutS int64 `json:"timeout_s,omitempty"`
	// Model by its name in the worker's configuration. Empty means the first.
	Model string `json:"model,omitempty"`
	// Tools by name. Nil means all.
	Tools []string `json:"tools,omitempty"`
}

func (l Limits) withDefaults() Limits {
	l.MaxDepth = cmp.Or(l.MaxDepth, 2)
	l.MaxChildren = cmp.Or(max(l.MaxChildren, 0), 8)
	l.MaxTurns = cmp.Or(max(l.MaxTurns, 0), 50)
	return l
}

// cap returns the other limits, none of them larger than those of l.
func (l Limits) cap(other Limits) Limits {
	other.Depth = max(other.Depth, 0)
	other.MaxDepth = min(l.MaxDepth, other.withDefaults().MaxDepth)
	other.MaxChildren = smallerLimit(l.MaxChildren, other.MaxChildren)
	other.MaxTurns = smallerLimit(l.MaxTurns, other.MaxTurns)
	other.TokenBudget = smallerLimit(l.TokenBudget, other.TokenBudget)
	other.TimeoutS = smallerLimit(l.TimeoutS, other.TimeoutS)
	if other.Tools == nil {
		other.Tools = l.Tools
	}
	return other
}

// smallerLimit returns the smaller of two limits, where 0 means no limit.
func smallerLimit[N int | int64](a, b N) N {
	switch {
	case b <= 0:
		return a
	case a <= 0:
		return b
	}
	return min(a, b)
}

// allowsTool reports whether a run may have a tool. No run may have AgentTool,
// which would speak in the user's name.
func (l Limits) allowsTool(name string) bool {
	if name == AgentTool || startsSubagent(name) && l.Depth >= l.MaxDepth {
		return false
	}
	return l.Tools == nil || slices.Contains(l.Tools, name)
}
