package agents

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// TurnRequest names a turn of a run, counted from 1.
type TurnRequest struct {
	Session string `json:"session"` // token
	Run     string `json:"run"`
	Turn    int    `json:"turn"`
}

// Turn is a request to the model, and the answer, as the log of the conversation has them.
type Turn struct {
	// Request is JSON in the form of Anthropic's Messages API, in which logs keep messages. It is a
	// text, so that no reader changes its numbers.
	Request string `json:"request"`
	// Answer is the content of the model's message, in the same form.
	Answer string `json:"answer"`
	// Setup says if the request has the system prompt, the tools and the maximum of tokens.
	Setup SetupState `json:"setup"`
	// Late is how many notices at the end of the messages may have come after the request.
	Late int `json:"late"`
}

// SetupState says if a log has what a request contains beside the messages.
type SetupState string

const (
	setupStored   SetupState = "stored"
	setupTooLarge SetupState = "too_large"
	setupMissing  SetupState = "missing" // an earlier version wrote the log
)

// modelRequest is a request in the form of https://docs.anthropic.com/en/api/messages.
type modelRequest struct {
	Model     string            `json:"model,omitempty"`
	MaxTokens int               `json:"max_tokens,omitempty"`
	System    string            `json:"system,omitempty"`
	Messages  []agent.Message   `json:"messages"`
	Tools     []agent.SetupTool `json:"tools,omitempty"`
}

func readTurn(ctx context.Context, b *bus.Bus, in TurnRequest) (t Turn, err error) {
	id, run := tools.TokenOf(in.Session), tools.TokenOf(in.Run)
	bodies, _, err := session.New(b).Read(ctx, id, 0)
	if err != nil {
		return t, err
	}
	entries, _ := agent.DecodeEntries(bodies) // the error is about those that are left out
	stored, ok, err := agent.TurnOf(entries, run, in.Turn)
	if err != nil {
		return t, err
	}
	if !ok {
		return t, tools.Errorf(tools.CodeNotFound, "session %.80q has no turn %d of the run %.80q; its conversation may be deleted", id, in.Turn, run)
	}
	request := modelRequest{Model: stored.Answer.Model, Messages: stored.Messages}
	t.Late, t.Setup = stored.Late, setupMissing
	if s := stored.Setup; s != nil {
		request.MaxTokens, request.System, request.Tools, t.Setup = s.MaxTokens, s.System, s.Tools, setupStored
		if s.TooLarge {
			t.Setup = setupTooLarge
		}
	}
	data, err := bus.Encode(request)
	if err != nil {
		return t, err
	}
	answer, err := bus.Encode(stored.Answer.Message.Content)
	t.Request, t.Answer = string(data), string(answer)
	return t, err
}
