package tools

import (
	"encoding/json"
	"strings"
)

// Activity is one thing that an agent did while it ran a call: a piece of the
// model's text, the start or end of a tool call, or a wait.
type Activity struct {
	Type ActivityType `json:"type"`
	// Turn of the model, from 1.
	Turn int `json:"turn"`
	// Text that the model wrote, and how many characters (Unicode code points) of the
	// turn's text precede it. A lower offset than expected means that the model began
	// the turn again: drop the text from there on. A higher one means that a piece was
	// lost; the result of the call has the complete text. Of a tool call that failed: the
	// first line of its error.
	Offset int    `json:"offset,omitempty"`
	Text   string `json:"text,omitempty"`
	// Call is the id of the tool call, in the session of this one.
	Call string `json:"call,omitempty"`
	Tool string `json:"tool,omitempty"`
	// Args are the start of the call's arguments, for people; it may not be JSON.
	Args string `json:"args,omitempty"`
	// Outcome and DurationMS of a call that ended.
	Outcome    Outcome `json:"outcome,omitempty"`
	DurationMS int64   `json:"duration_ms,omitempty"`
}

// ActivityType says what an Activity reports.
type ActivityType string

const (
	// ActivityText: the model wrote Text.
	ActivityText ActivityType = "text"
	// ActivityToolStart: a tool call starts, or starts again after a restart of the
	// worker.
	ActivityToolStart ActivityType = "tool_start"
	// ActivityToolEnd: a tool call ended.
	ActivityToolEnd ActivityType = "tool_end"
	// ActivityWaiting: the agent waits for its model; Text says why.
	ActivityWaiting ActivityType = "waiting"
)

// maxActivityText bounds the arguments and the error of an Activity, in bytes.
const maxActivityText = 240

// ErrorExcerpt returns the start of the first line of an error for an Activity.
func ErrorExcerpt(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return Excerpt(OneLine(first), maxActivityText)
}

// ArgsExcerpt is ShownArgs for an Activity.
func ArgsExcerpt(args json.RawMessage) string {
	if text := strings.TrimSpace(ShownArgs(Call{Args: args})); text != "" && text != "{}" && text != "null" {
		return Excerpt(text, maxActivityText)
	}
	return ""
}
