package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Kind says what an entry of a log records.
type Kind string

const (
	// KindUser begins a run: what the user said.
	KindUser Kind = "user"
	// KindAssistant is a turn of the model, as it came.
	KindAssistant Kind = "assistant"
	// KindResults has answers to calls of the turn before.
	KindResults Kind = "results"
	// KindShelved replaces old answers by references.
	KindOffloaded Kind = "shelved"
	// KindResumed: another loop took the run up. From here on the one that had
	// it cannot append any more.
	KindResumed Kind = "resumed"
	// KindEnd ends a run.
	KindEnd Kind = "end"
)

// Entry is one entry of a conversation's log. Fields are added, never renamed.
type Entry struct {
	Kind Kind      `json:"kind"`
	Run  string    `json:"run"`
	At   time.Time `json:"at"`
	// Message of a user or assistant entry.
	Message *Message `json:"message,omitempty"`
	// Call that began the run, in a user entry.
	Call *tools.Call `json:"call,omitempty"`
	// Grant of the run, in a user entry, with the tools that it has: so it stays,
	// also with a worker that has others.
	Limits *Limits `json:"grant,omitempty"`
	// Fresh in a user entry: the model gets nothing of what was said before.
	Fresh bool `json:"fresh,omitempty"`
	// StopReason, Usage and Model belong to an assistant entry.
	StopReason StopReason `json:"stop_reason,omitempty"`
	Usage      *Usage     `json:"usage,omitempty"`
	Model      string     `json:"model,omitempty"`
	// Answers of a results entry.
	Results []CallResult `json:"answers,omitempty"`
	// Shelved has the new text of answers, by the call's id.
	Offloaded map[string]string `json:"shelved,omitempty"`
	// End of an end entry.
	End *Outcome `json:"end,omitempty"`
}

// Answer is what a tool call came to, light.
type CallResult struct {
	Call    string        `json:"call"` // the call's id
	Tool    string        `json:"tool"`
	Outcome tools.Outcome `json:"outcome"`
	// NotMade: the loop refused the call, and no tool saw it.
	NotRun bool `json:"not_made,omitempty"`
	// Spent is how many tokens of the run's budget went to a sub-agent: those
	// that it used, or was given, if it works in the background.
	SubagentTokens int64 `json:"spent,omitempty"`
	tools.Result
}

// block is what the model gets.
func (a CallResult) block(toolUseID, shelved string) Block {
	text := a.ForLLM
	switch {
	case shelved != "":
		text = shelved
	case a.Blocks != nil:
		return Block{Type: TypeToolResult, ToolUseID: toolUseID, Content: a.Blocks, IsError: a.IsError}
	case text == "":
		text = "(no output)" // some providers refuse empty results
	}
	return ToolResult(toolUseID, text, a.IsError)
}

// DecodeEntry reads an entry.
func DecodeEntry(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("decode entry of a conversation: %w", err)
	}
	return e, nil
}

// Reason says why a run ended.
type Reason string

const (
	// Done: the model said its last word.
	Done Reason = "done"
	// The limits of the run.
	TurnLimit   Reason = "turn_limit"
	TokenBudget Reason = "token_budget"
	Deadline    Reason = "deadline"
	// Cancelled by somebody.
	Cancelled Reason = "cancelled"
	// Truncated: the last turn was longer than a turn may be.
	Truncated Reason = "truncated"
	// Refused: the model, or its provider, declined to go on.
	Refused Reason = "refused"
	// Failed: the provider or the bus did; Error says how.
	Failed Reason = "failed"
	// Abandoned: the run was silent for long and nobody had it.
	Abandoned Reason = "abandoned"
)

// Outcome is how a run ended.
type Outcome struct {
	Reason Reason `json:"reason"`
	// Reply is the model's final text, or the last that it said.
	Reply string `json:"reply,omitempty"`
	// ForUser is what the user gets: the text for the user of the last tool
	// result, if it has one that is not silent, else Reply; and for a run that
	// did not end well, why.
	ForUser string `json:"for_user,omitempty"`
	Turns   int    `json:"turns"`
	Usage   Usage  `json:"usage"`
	// Spent is how many tokens went to sub-agents.
	SubagentTokens int64 `json:"spent,omitempty"`
	// Tools counts the calls of each tool that were made.
	Tools map[string]int `json:"tools,omitempty"`
	// Error of a run that failed.
	Error *tools.EventError `json:"error,omitempty"`
}

// Err is nil if the run ended well, and says else why it did not; its code is
// that of the reason.
func (o Outcome) Err() error {
	switch o.Reason {
	case Done:
		return nil
	case TurnLimit:
		return tools.Errorf("turn_limit", "the agent stopped after %d turns, which is its limit, before it was done", o.Turns)
	case TokenBudget:
		return tools.Errorf("token_budget", "the agent stopped before it was done: it used %d tokens, and its budget is spent", o.Usage.Total()+o.SubagentTokens)
	case Deadline:
		return tools.Errorf(tools.CodeTimeout, "the agent ran out of time before it was done, after %d turns", o.Turns)
	case Cancelled:
		return tools.Errorf(tools.CodeCancelled, "the agent was cancelled after %d turns", o.Turns)
	case Truncated:
		return tools.Errorf("truncated", "the agent's answer was cut off, because a turn may not be longer")
	case Refused:
		return tools.Errorf("refused", "the model declined to go on")
	case Abandoned:
		return tools.Errorf("abandoned", "the agent stopped without an end; nobody was running it any more")
	}
	if o.Error != nil {
		return &tools.Error{Code: o.Error.Code, Message: "the agent failed: " + o.Error.Message}
	}
	return tools.Errorf(tools.CodeToolFailed, "the agent failed")
}
