package agent

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/tools"
)

const anthropicBase = "https://api.anthropic.com"

// Anthropic is a model behind Anthropic's Messages API.
type Anthropic struct {
	client *client
	model  string
}

// NewAnthropic returns the named model.
func NewAnthropic(model string, cfg ProviderConfig) (*Anthropic, error) {
	header := map[string]string{"Anthropic-Version": "2023-06-01"}
	if cfg.APIKey != "" {
		header["X-Api-Key"] = cfg.APIKey
	}
	c, err := newClient(cfg, anthropicBase, "v1/messages", header)
	return &Anthropic{client: c, model: model}, err
}

type anthropicRequest struct {
	Model     string          `json:"model"`
	MaxTokens int             `json:"max_tokens"`
	System    []Block         `json:"system,omitempty"`
	Messages  []Message       `json:"messages"`
	Tools     []anthropicTool `json:"tools,omitempty"`
}

type anthropicTool struct {
	Name        string             `json:"name"`
	Description string             `json:"description,omitempty"`
	InputSchema *jsonschema.Schema `json:"input_schema"`
}

// Complete asks the model. Blocks go back to the model exactly as it sent them,
// blocks of unknown types included.
func (a *Anthropic) Complete(ctx context.Context, req Request) (Response, error) {
	wire := anthropicRequest{Model: a.model, MaxTokens: req.maxTokens()}
	for _, def := range req.Tools {
		wire.Tools = append(wire.Tools, anthropicTool{def.Name, def.Description, schemaOf(def)})
	}
	var err error
	if wire.System, wire.Messages, err = cached(req); err != nil {
		return Response{}, badAnswer("the conversation: %v", err)
	}
	return a.client.complete(ctx, wire, anthropicAnswer)
}

func anthropicAnswer(data []byte, _ http.Header) (Response, error) {
	var wire struct {
		Type       string     `json:"type"`
		Model      string     `json:"model"`
		Content    []Block    `json:"content"`
		StopReason StopReason `json:"stop_reason"`
		Usage      struct {
			Input      int64 `json:"input_tokens"`
			Output     int64 `json:"output_tokens"`
			CacheRead  int64 `json:"cache_read_input_tokens"`
			CacheWrite int64 `json:"cache_creation_input_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return Response{}, badAnswer("not JSON: %v", err)
	}
	if wire.Type != "message" {
		return Response{}, badAnswer("its type is %q, not \"message\"; is this the address of an Anthropic API?", tools.Excerpt(wire.Type, 40))
	}
	return Response{
		Content: wire.Content, StopReason: wire.StopReason, Model: wire.Model,
		Usage: Usage{
			Input:       wire.Usage.Input + wire.Usage.CacheRead + wire.Usage.CacheWrite,
			Output:      wire.Usage.Output,
			CachedInput: wire.Usage.CacheRead,
		},
	}, nil
}

// cached marks the end of the system prompt and of the conversation for the
// provider's cache, unless the caller set marks: each turn then pays in full
// only for what is new in it.
func cached(req Request) (system []Block, messages []Message, err error) {
	mark := map[string]string{"type": "ephemeral"}
	if req.System != "" {
		block, err := Text(req.System).with("cache_control", mark)
		if err != nil {
			return nil, nil, err
		}
		system = []Block{block}
	}
	messages = req.Messages
	for _, m := range messages {
		for _, b := range m.Content {
			if b.has("cache_control") {
				return system, messages, nil
			}
		}
	}
	last := len(messages) - 1
	if last < 0 || len(messages[last].Content) == 0 {
		return system, messages, nil
	}
	content := append([]Block(nil), messages[last].Content...)
	end := len(content) - 1
	if t := content[end].Type; t != TypeText && t != TypeToolResult {
		return system, messages, nil // others may not take the mark
	}
	if content[end], err = content[end].with("cache_control", mark); err != nil {
		return nil, nil, err
	}
	messages = append([]Message(nil), messages...)
	messages[last].Content = content
	return system, messages, nil
}

// has reports whether a decoded block has a field.
func (b Block) has(field string) bool {
	fields := map[string]json.RawMessage{}
	return b.raw != nil && json.Unmarshal(b.raw, &fields) == nil && fields[field] != nil
}

func schemaOf(def tools.Definition) *jsonschema.Schema {
	if def.Parameters == nil {
		return &jsonschema.Schema{Type: "object"}
	}
	return def.Parameters
}
