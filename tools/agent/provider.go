package agent

import (
	"context"
	"math"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// Provider is a language model. Complete returns the model's next turn. Its error
// is a *ProviderError, or the cause of ctx. A Provider is safe for concurrent use
// and keeps no state between calls: the request contains the whole conversation.
type Provider interface {
	Complete(ctx context.Context, req Request) (Response, error)
}

// Request asks for the next turn of a conversation.
type Request struct {
	// System is the system prompt. Empty means none.
	System string
	// Messages start with one of the user, and the roles alternate.
	Messages []Message
	// Tools that the model may call, in a stable order.
	Tools []tools.Definition
	// MaxTokens bounds the turn. Default DefaultMaxTokens.
	MaxTokens int
	// ReplacedTurns is how many messages of the model a summary in the first message
	// replaces.
	ReplacedTurns int
	// Summary: the request asks for a summary of a conversation, and not for its next
	// turn.
	Summary bool
	// Probe: the provider failed before, and the run waits without a worker if it fails
	// again. So a temporary failure is repeated once at most.
	Probe bool
	// OnText, if not nil, gets the turn's text as the model writes it, from the
	// goroutine that calls Complete. offset is the number of characters that precede
	// the piece; it is 0 again if the provider repeats a request that failed. A
	// provider that does not stream may call it once, or not at all.
	OnText func(offset int, text string)
}

// DefaultMaxTokens is the default of Request.MaxTokens.
const DefaultMaxTokens = 8192

// imageData is the base64 text of a picture in a request, and imageTokens is about what a model
// takes for it: a 750th of its pixels, of which there are at most 1.2 million. Source:
// https://docs.anthropic.com/en/docs/build-with-claude/vision
var imageData = lazyregexp.New(`"data":"[A-Za-z0-9+/]{400,}=*"`)

const imageTokens = 1600

// EstimateTokens returns about how many tokens a request has.
func (r Request) EstimateTokens() int64 {
	n := offload.EstimateTokens(r.System)
	for _, v := range []any{r.Messages, r.Tools} {
		if data, err := jsonform.Encode(v); err == nil { // otherwise the provider will report the error
			n += offload.EstimateTokens(string(data))
			for _, at := range imageData.FindAllIndex(data, -1) {
				n += imageTokens - offload.TokensOfRunes(int64(at[1]-at[0]))
			}
		}
	}
	return n
}

// Response is one turn of the model.
type Response struct {
	// Content is the turn's blocks, exactly as the model sent them.
	Content    []Block
	StopReason StopReason
	Usage      Usage
	// Model is the provider's name of the model.
	Model string
}

// StopReason says why a turn ended. A provider may return others than these.
type StopReason string

const (
	StopEndTurn   StopReason = "end_turn"
	StopToolUse   StopReason = "tool_use"
	StopMaxTokens StopReason = "max_tokens"
	StopRefusal   StopReason = "refusal"
	// StopPause: the provider interrupted the turn. The next request contains the
	// partial turn, and the model continues it.
	StopPause StopReason = "pause_turn"
)

// Usage counts tokens. Input is all tokens of the prompt, cached ones included.
type Usage struct {
	Input       int64 `json:"input_tokens"`
	Output      int64 `json:"output_tokens"`
	CachedInput int64 `json:"cached_input_tokens,omitempty"`
	// Cost in the currency of the prices; 0 if the model has none.
	Cost float64 `json:"cost,omitempty"`
}

// Total counts against a token budget.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Add adds a usage, which may be nil. JSON has no infinite cost.
func (u *Usage) Add(v *Usage) {
	if v != nil {
		u.Input, u.Output, u.CachedInput = u.Input+v.Input, u.Output+v.Output, u.CachedInput+v.CachedInput
		u.Cost = min(u.Cost+v.Cost, math.MaxFloat64)
	}
}
