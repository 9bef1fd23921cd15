package provider

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

const openAIBase = "https://api.openai.com/v1"

// OpenAI is a model behind a server with the chat completions API: OpenAI's own,
// Ollama, vLLM, OpenRouter, DeepSeek and many others.
type OpenAI struct {
	client *client
	model  string
}

// NewOpenAI returns the named model.
func NewOpenAI(model string, cfg Config) (*OpenAI, error) {
	header := map[string]string{}
	if cfg.APIKey != "" {
		header["Authorization"] = "Bearer " + cfg.APIKey
	}
	c, err := newClient(cfg, openAIBase, "chat/completions", header)
	if err == nil {
		c.form.Store(requestForm{completionTokens: strings.HasPrefix(c.endpoint, openAIBase)})
	}
	return &OpenAI{client: c, model: model}, err
}

// Complete asks the model.
func (o *OpenAI) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	wire := openAIRequest{Model: o.model, Messages: openAIMessages(req)}
	tools, err := agent.SetupTools(req.Tools)
	if err != nil {
		return agent.Response{}, badAnswer("the conversation: %v", err)
	}
	for _, t := range tools {
		wire.Tools = append(wire.Tools, openAITool{"function", openAIFunction{t.Name, t.Description, t.InputSchema}})
	}
	return o.client.complete(ctx, req.Probe, api{
		request: func(form requestForm) any {
			wire.Stream, wire.StreamOptions, wire.MaxTokens, wire.MaxCompletionTokens = form.streaming != noStream, nil, maxTokens(req), 0
			if form.streaming == streamWithUsage {
				wire.StreamOptions = map[string]bool{"include_usage": true}
			}
			if form.completionTokens {
				wire.MaxTokens, wire.MaxCompletionTokens = 0, wire.MaxTokens
			}
			return wire
		},
		newTurn: func() turn { return &openAIStream{key: o.client.key, text: textReporter{onText: req.OnText}} },
	})
}

func isSet(field json.RawMessage) bool { return len(field) > 0 && string(field) != "null" }

// toolInput returns the input of a call, which both APIs send as a text of JSON. Invalid
// JSON becomes a JSON string: the tool's schema rejects it, and the model sees the error.
func toolInput(text string) json.RawMessage {
	switch {
	case strings.TrimSpace(text) == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	encoded, _ := jsonform.Encode(text) // texts do not fail
	return encoded
}

// finishError returns the error of a turn that ended because the provider failed, as OpenRouter and DeepSeek say it.
func finishError(reason string, header http.Header, key string) error {
	if reason != "error" && reason != "insufficient_system_resource" {
		return nil
	}
	return embeddedError(json.RawMessage(`"the provider behind the server failed"`), header, key, true)
}

// openAIStop returns the agent's name of a reason. Some servers pass on that of the model behind them: MAX_TOKENS.
func openAIStop(reason string) agent.StopReason {
	switch reason = strings.ToLower(reason); reason {
	case "stop":
		return agent.StopEndTurn
	case "tool_calls", "function_call":
		return agent.StopToolUse
	case "length":
		return agent.StopMaxTokens
	case "content_filter":
		return agent.StopRefusal
	}
	return agent.StopReason(reason)
}
