package agent

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Provider is a language model. Complete returns the model's next turn; an error
// is a *ProviderError, or that of ctx. It may be called concurrently, and keeps
// nothing between calls: what was said stands in the request.
type Provider interface {
	Complete(ctx context.Context, req Request) (Response, error)
}

// Request asks for the next turn of a conversation.
type Request struct {
	// System is the system prompt; empty is none.
	System string
	// Messages begin with the user's, and alternate.
	Messages []Message
	// Tools that the model may ask for, in a stable order.
	Tools []tools.Definition
	// MaxTokens bounds the turn. Default 8,192.
	MaxTokens int
}

// DefaultMaxTokens bounds a turn whose request does not say.
const DefaultMaxTokens = 8192

func (r Request) maxTokens() int {
	if r.MaxTokens <= 0 {
		return DefaultMaxTokens
	}
	return r.MaxTokens
}

// Response is one turn of the model.
type Response struct {
	// Content is the turn's blocks, as they came.
	Content    []Block
	StopReason StopReason
	Usage      Usage
	// Model that answered, as the provider names it.
	Model string
}

// StopReason says why a turn ended. Others than these may come from a provider.
type StopReason string

const (
	StopEndTurn   StopReason = "end_turn"
	StopToolUse   StopReason = "tool_use"
	StopMaxTokens StopReason = "max_tokens"
	StopRefusal   StopReason = "refusal"
	// StopPause: the turn was interrupted by the provider, and goes on when it
	// is sent back.
	StopPause StopReason = "pause_turn"
)

// Usage counts tokens. Input has all tokens of the prompt, cached ones included.
type Usage struct {
	Input       int64 `json:"input_tokens"`
	Output      int64 `json:"output_tokens"`
	CachedInput int64 `json:"cached_input_tokens,omitempty"`
}

// Total is what counts against a token budget.
func (u Usage) Total() int64 { return u.Input + u.Output }

func (u Usage) plus(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, CachedInput: u.CachedInput + v.CachedInput}
}

// ProviderConfig says how to reach a provider. The zero value works for script.
type ProviderConfig struct {
	// BaseURL replaces the provider's own address, for servers that speak its
	// protocol, without the path that the protocol adds: "http://localhost:8080"
	// for anthropic, "http://localhost:11434/v1" for openai.
	BaseURL string
	// APIKey is sent to that address and to nobody else, and is kept out of
	// errors.
	APIKey string
	// Patience is how long failures that may heal are retried. Default 2 min.
	Patience time.Duration
	// Timeout bounds one request. Default 10 min.
	Timeout time.Duration
	// HTTPClient makes the requests. Default one that follows no redirects, so
	// that the key stays where it was sent.
	HTTPClient *http.Client
}

func (c ProviderConfig) withDefaults() ProviderConfig {
	if c.Patience <= 0 {
		c.Patience = 2 * time.Minute
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return c
}

// OpenProvider returns the provider that a spec string names: anthropic:MODEL,
// openai:MODEL (any server that speaks chat completions) or script:FILE.
func OpenProvider(spec string, cfg ProviderConfig) (Provider, error) {
	kind, name, _ := strings.Cut(spec, ":")
	if name == "" && (kind == "anthropic" || kind == "openai" || kind == "script") {
		return nil, fmt.Errorf("model %q: nothing stands behind the colon; want anthropic:MODEL, openai:MODEL or script:FILE", spec)
	}
	switch kind {
	case "anthropic":
		return NewAnthropic(name, cfg)
	case "openai":
		return NewOpenAI(name, cfg)
	case "script":
		return LoadScript(name)
	}
	return nil, fmt.Errorf("model %q: want anthropic:MODEL, openai:MODEL or script:FILE", spec)
}
