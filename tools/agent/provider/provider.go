package provider

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// ExampleModel is the model of the demo and of the help texts, as a spec string.
const ExampleModel = "anthropic:claude-sonnet-5-5"

// Config says how to reach a provider. The zero value works for script.
type Config struct {
	// BaseURL replaces the provider's own address, for other servers with the same
	// API. It does not include the path that the API adds: "http://localhost:8080"
	// for anthropic, "http://localhost:11434/v1" for openai.
	BaseURL string
	// APIKey is sent only to that address. Errors never contain it.
	APIKey string
	// RetryTimeout is how long temporary failures are retried. Default 5 s.
	RetryTimeout time.Duration
	// StallTimeout is the longest pause within a response. Default 2 min. A response
	// may take 5 times as long to begin, and 30 times as long altogether.
	StallTimeout time.Duration
	// Price of the model. If it is zero, the usage has no cost.
	Price Price
}

// Open returns the provider that a spec string names: anthropic:MODEL,
// openai:MODEL (any server with the chat completions API) or script:FILE.
func Open(spec string, cfg Config) (agent.Provider, error) {
	kind, name, _ := strings.Cut(spec, ":")
	var (
		model agent.Provider
		err   error
	)
	switch {
	case name == "":
	case kind == "anthropic":
		model, err = NewAnthropic(name, cfg)
	case kind == "openai":
		model, err = NewOpenAI(name, cfg)
	case kind == "script":
		model, err = loadScript(name)
	}
	switch {
	case err != nil:
		return nil, err
	case model != nil:
		return measured{model, kind, modelLabel(kind, name), cfg.Price}, nil
	}
	return nil, fmt.Errorf("model %q: want anthropic:MODEL, openai:MODEL or script:FILE", spec)
}

// modelLabel is the name of a model in traces. A script is a path of this host.
func modelLabel(kind, name string) string {
	if kind == "script" {
		return filepath.Base(name)
	}
	return name
}

func maxTokens(req agent.Request) int { return cmp.Or(max(req.MaxTokens, 0), agent.DefaultMaxTokens) }
