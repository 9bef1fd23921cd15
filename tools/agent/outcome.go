package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// Reason says why a run ended.
type Reason string

const (
	// Done: the model gave its final answer.
	Done Reason = "done"
	// The run reached one of its limits.
	TurnLimit   Reason = "turn_limit"
	TokenBudget Reason = "token_budget"
	// costBudget: the budget of the day is spent; see Config.CheckBudget.
	costBudget Reason = "cost_budget"
	Deadline   Reason = "deadline"
	// Cancelled: a client cancelled the call.
	Cancelled Reason = "cancelled"
	// Truncated: the last turn reached the maximum length of a turn.
	Truncated Reason = "truncated"
	// Refused: the model or its provider declined to continue.
	Refused Reason = "refused"
	// Failed: the provider or the bus failed. Outcome.Error says how.
	Failed Reason = "failed"
	// Abandoned: no process continued the run.
	Abandoned Reason = "abandoned"
)

// CodeCostBudget is the code of an error of Config.CheckBudget that ends a run.
const CodeCostBudget = "cost_budget"

// Outcome is how a run ended.
type Outcome struct {
	Reason Reason `json:"reason"`
	// Reply is the text of the last turn that had one.
	Reply string `json:"reply,omitempty"`
	// ForUser is the text that the user gets: Reply, or the reason if the run did not
	// end well. It is empty if the user got the same text before, from a tool. The output of
	// tools is not part of it; see ToolOutput.
	ForUser string `json:"for_user,omitempty"`
	Turns   int    `json:"turns"`
	Usage   Usage  `json:"usage"`
	// SubagentTokens is how many tokens the sub-agents used.
	SubagentTokens int64 `json:"spent,omitempty"`
	// Tools counts the calls that ran, by tool.
	Tools map[string]int `json:"tools,omitempty"`
	// Error of a run that failed.
	Error *tools.EventError `json:"error,omitempty"`
}

// Err returns nil if the run ended well, and otherwise an error whose code says
// why it did not.
func (o Outcome) Err() error {
	switch o.Reason {
	case Done:
		return nil
	case TurnLimit:
		return tools.Errorf("turn_limit", "the agent stopped before it was done: it reached its limit of %d turns", o.Turns)
	case TokenBudget:
		return tools.Errorf("token_budget", "the agent stopped before it was done: it used %d tokens and so exhausted its budget", o.Usage.Total()+o.SubagentTokens)
	case costBudget:
		return tools.Errorf(CodeCostBudget, "the agent stopped before it was done: %s", o.Error.Message)
	case Deadline:
		return tools.Errorf(tools.CodeTimeout, "the agent ran out of time before it was done, after %d turns", o.Turns)
	case Cancelled:
		return tools.Errorf(tools.CodeCancelled, "the agent was cancelled after %d turns", o.Turns)
	case Truncated:
		return tools.Errorf("truncated", "the agent's answer was cut off at the maximum length of a turn")
	case Refused:
		return tools.Errorf("refused", "the model declined to continue")
	case Abandoned:
		return tools.Errorf("abandoned", "the agent was interrupted, and no worker continued it; send the prompt again")
	}
	if o.Error != nil {
		return &tools.Error{Code: o.Error.Code, Message: "the agent failed: " + o.Error.Message}
	}
	return tools.Errorf(tools.CodeToolFailed, "the agent failed")
}

// outcome returns how a run ended, for a reason and the error that caused it.
func (s *runState) outcome(reason Reason, cause error) Outcome {
	o := Outcome{Reason: reason, Reply: s.text, Turns: s.turns, Usage: s.usage, SubagentTokens: s.subagentTokens, Tools: maps.Clone(s.toolCounts)}
	if cause != nil {
		o.Error = &tools.EventError{Code: errorCode(cause), Message: cause.Error()}
	}
	switch {
	case (reason == Truncated || reason == Refused) && o.Reply != "":
		o.ForUser = fmt.Sprintf("%s\n\n(%s)", o.Reply, o.Err())
	case reason != Done:
		o.ForUser = o.Err().Error()
	case o.Reply == "" && !s.answeredUser():
		o.ForUser = noReply
	case slices.Contains(s.sent, strings.TrimSpace(o.Reply)): // the user has it
	default:
		o.ForUser = o.Reply
	}
	return o
}

// noReply is the reply of a run whose final turn has no text.
const noReply = "(the agent ended without an answer)"

// answeredUser reports whether the user needs no reply: he got a message or the output of a
// tool, or nobody asked. A job may write to other chats only.
func (s *runState) answeredUser() bool {
	return len(s.sent) > 0 || s.lastResult != nil && s.lastResult.hasOutput() ||
		s.call != nil && (s.call.Action == tools.ActionHeartbeat || s.call.Action != "" && s.toolCounts["message"] > 0)
}

func errorCode(err error) string {
	if failure, ok := errors.AsType[*ProviderError](err); ok {
		return failure.Code
	}
	if errors.Is(err, ErrTooLarge) {
		return "too_large"
	}
	return tools.CodeOf(err)
}

// reasonOf returns why a run ends whose last turn calls no tools. If it is not Done, the turn is not
// complete: what a call of it has as its arguments may be a part of them, or nothing.
func reasonOf(stop StopReason) Reason {
	switch stop {
	case StopMaxTokens, "model_context_window_exceeded":
		return Truncated
	case StopRefusal:
		return Refused
	}
	return Done
}
