package agent

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Kind says what an entry of a conversation records.
type Kind string

const (
	// KindUser starts a run. It contains the user's message.
	KindUser Kind = "user"
	// KindAssistant is a turn of the model, exactly as the model sent it.
	KindAssistant Kind = "assistant"
	// KindResults has results of the last turn's calls.
	KindResults Kind = "results"
	// KindOffloaded replaces old results and long arguments by references.
	KindOffloaded Kind = "shelved"
	// KindCompacted replaces the oldest turns by a summary and an artifact.
	KindCompacted Kind = "compacted"
	// KindResumed: another loop continues the run. From now on the loop that had
	// the run before cannot append.
	KindResumed Kind = "resumed"
	// KindWaiting: the provider failed temporarily, so the run waits.
	KindWaiting Kind = "waiting"
	// KindNotice tells the conversation what happened outside of it. It belongs to no run.
	KindNotice Kind = "notice"
	// KindEnd ends a run.
	KindEnd Kind = "end"
)

// Entry is one entry of a conversation. Old logs must stay readable, so new
// versions may add fields, but may not rename them in JSON.
type Entry struct {
	Kind Kind      `json:"kind"`
	Run  string    `json:"run"`
	At   time.Time `json:"at"`
	// Message of a user or assistant entry.
	Message *Message `json:"message,omitempty"`
	// Call that started the run, in a user entry.
	Call *tools.Call `json:"call,omitempty"`
	// Limits of the run and its tools, in a user entry. They stay the same if a
	// worker with another configuration continues the run.
	Limits *Limits `json:"grant,omitempty"`
	// Fresh, in a user entry: the model sees nothing of the earlier entries.
	Fresh bool `json:"fresh,omitempty"`
	// Files, in a user entry, are those whose instructions the run began with.
	Files []string `json:"files,omitempty"`
	// ToolOutput, in a user entry; see Config.
	ToolOutput ToolOutput `json:"tool_output,omitempty"`
	// Setup, in a user or resumed entry, is a packed Setup: that of the run from now on, if it is not
	// the one before.
	Setup []byte `json:"setup,omitempty"`
	// StopReason, Usage and Model of an assistant entry; Usage and Model also of a
	// compacted entry, if the model was asked for the summary.
	StopReason StopReason `json:"stop_reason,omitempty"`
	Usage      *Usage     `json:"usage,omitempty"`
	Model      string     `json:"model,omitempty"`
	// Results of a results entry.
	Results []CallResult `json:"answers,omitempty"`
	// Offloaded maps the ids of calls to references, and those of the artifacts with the arguments
	// of calls to themselves, in an offloaded entry.
	Offloaded map[string]string `json:"shelved,omitempty"`
	// Compaction of a compacted entry.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Wait of a waiting entry.
	Wait *Wait `json:"wait,omitempty"`
	// Notice of a notice entry.
	Notice *Notice `json:"notice,omitempty"`
	// End of an end entry, and what the session used until then.
	End   *Outcome `json:"end,omitempty"`
	Total *Total   `json:"total,omitempty"`
}

// Total is what the runs of a session used, without their sub-agents, which have own
// sessions.
type Total struct {
	Turns int `json:"turns"`
	// Subagents is how many sub-agents the turns called for.
	Subagents int `json:"subagents,omitempty"`
	Usage
}

// Count adds what an entry says. The summary of old turns is not a turn.
func (t *Total) Count(e Entry) {
	t.Add(e.Usage)
	if e.Kind == KindAssistant {
		t.Turns++
	}
}

// Include adds another total.
func (t *Total) Include(u Total) {
	t.Turns, t.Subagents = t.Turns+u.Turns, t.Subagents+u.Subagents
	t.Add(&u.Usage)
}

// CallResult is the result of a tool call, after offloading.
type CallResult struct {
	Call    string        `json:"call"` // the call's id
	Tool    string        `json:"tool"`
	Outcome tools.Outcome `json:"outcome"`
	// NotRun: the loop rejected the call, and no tool received it.
	NotRun bool `json:"not_made,omitempty"`
	// SubagentTokens is how much of the run's token budget a sub-agent used, or its
	// whole share if it runs in the background.
	SubagentTokens int64 `json:"spent,omitempty"`
	tools.Result
}

// block returns the tool_result for the model. A reference, if there is one,
// replaces the text.
func (c CallResult) block(toolUseID, reference string) Block {
	text := c.ForLLM
	switch {
	case reference != "":
		text = reference
	case c.Blocks != nil && c.IsError:
		return errorOf(Block{Type: TypeToolResult, ToolUseID: toolUseID, Content: c.Blocks, IsError: true})
	case c.Blocks != nil:
		return Block{Type: TypeToolResult, ToolUseID: toolUseID, Content: c.Blocks}
	case text == "" && c.Async:
		text = "Task started in background"
	case text == "":
		text = "(no output)" // some providers reject empty results
	}
	return ToolResult(toolUseID, text, c.IsError)
}

// DecodeEntries decodes the entries of a log. If some cannot be decoded, it returns the others, and
// an error.
func DecodeEntries(log [][]byte) (entries []Entry, err error) {
	entries = make([]Entry, 0, len(log))
	for i, data := range log {
		e, failed := DecodeEntry(data)
		if failed != nil {
			err = fmt.Errorf("entry %d of %d is damaged: %w", i+1, len(log), failed)
			continue
		}
		entries = append(entries, e)
	}
	return entries, err
}

// DecodeEntry decodes an entry.
func DecodeEntry(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("decode entry of a conversation: %w", err)
	}
	return e, nil
}
