package provider

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

const anthropicBase = "https://api.anthropic.com"

// Anthropic is a model behind Anthropic's Messages API.
type Anthropic struct {
	client *client
	model  string
}

// NewAnthropic returns the named model.
func NewAnthropic(model string, cfg Config) (*Anthropic, error) {
	header := map[string]string{"Anthropic-Version": "2023-06-01"}
	if cfg.APIKey != "" {
		header["X-Api-Key"] = cfg.APIKey
	}
	c, err := newClient(cfg, anthropicBase, "v1/messages", header)
	return &Anthropic{client: c, model: model}, err
}

// The shapes of https://docs.anthropic.com/en/api/messages.

type anthropicRequest struct {
	Model     string            `json:"model"`
	MaxTokens int               `json:"max_tokens"`
	System    []agent.Block     `json:"system,omitempty"`
	Messages  []agent.Message   `json:"messages"`
	Tools     []agent.SetupTool `json:"tools,omitempty"`
	Stream    bool              `json:"stream,omitempty"`
}

type anthropicUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

func (u anthropicUsage) usage() agent.Usage {
	return agent.Usage{Input: u.Input + u.CacheRead + u.CacheWrite, Output: u.Output, CachedInput: u.CacheRead}
}

// Complete asks the model. The model gets its own blocks back exactly as it sent
// them, blocks of unknown types included.
func (a *Anthropic) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	wire := anthropicRequest{Model: a.model, MaxTokens: maxTokens(req)}
	var err error
	if wire.Tools, err = agent.SetupTools(req.Tools); err == nil {
		wire.System, wire.Messages, err = withCacheMarks(req)
	}
	if err != nil {
		return agent.Response{}, badAnswer("the conversation: %v", err)
	}
	return a.client.complete(ctx, req.Probe, api{
		request: func(form requestForm) any { wire.Stream = form.streaming != noStream; return wire },
		newTurn: func() turn {
			return &anthropicTurn{key: a.client.key, text: textReporter{onText: req.OnText}, byIndex: map[int]*streamedBlock{}}
		},
	})
}

// withCacheMarks marks the end of the system prompt and of the conversation for
// the provider's cache, so that each turn pays the full price only for what is
// new in it.
func withCacheMarks(req agent.Request) (system []agent.Block, messages []agent.Message, err error) {
	if req.System != "" {
		block, err := marked(agent.Text(req.System))
		if err != nil {
			return nil, nil, err
		}
		system = []agent.Block{block}
	}
	messages = req.Messages
	last := len(messages) - 1
	if last < 0 || len(messages[last].Content) == 0 {
		return system, messages, nil
	}
	content := slices.Clone(messages[last].Content)
	end := len(content) - 1
	if t := content[end].Type; t != agent.TypeText && t != agent.TypeToolResult {
		return system, messages, nil // the API may reject a mark on other types
	}
	if content[end], err = marked(content[end]); err != nil {
		return nil, nil, err
	}
	messages = slices.Clone(messages)
	messages[last].Content = content
	return system, messages, nil
}

// marked returns a block with a cache mark.
func marked(b agent.Block) (agent.Block, error) {
	data, err := b.MarshalJSON()
	if err != nil {
		return agent.Block{}, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return agent.Block{}, err
	}
	fields["cache_control"] = json.RawMessage(`{"type":"ephemeral"}`)
	if data, err = jsonform.Encode(fields); err != nil {
		return agent.Block{}, err
	}
	var changed agent.Block
	return changed, changed.UnmarshalJSON(data)
}
