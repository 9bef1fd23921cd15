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
	for _, def := range req.Tools {
		wire.Tools = append(wire.Tools, openAITool{Type: "function", Function: openAIFunction{
			Name: def.Name, Description: def.Description, Parameters: schemaOf(def),
		}})
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
		decode:  o.decode,
		newTurn: func() turn { return &openAIStream{key: o.client.key, text: textReporter{onText: req.OnText}} },
	})
}

func (o *OpenAI) decode(data []byte, header http.Header) (agent.Response, error) {
	var wire openAIResponse
	if err := decodeJSON(data, header, &wire); err != nil {
		return agent.Response{}, err
	}
	failure := wire.Error
	if len(wire.Choices) > 0 && isSet(wire.Choices[0].Error) {
		failure = wire.Choices[0].Error
	}
	switch {
	case isSet(failure):
		return agent.Response{}, embeddedError(failure, header, o.client.key, http.StatusBadRequest)
	case len(wire.Choices) == 0:
		return agent.Response{}, badAnswer("it has no choices; is this the address of a chat completions API?")
	}
	if err := finishError(wire.Choices[0].FinishReason, header, o.client.key); err != nil {
		return agent.Response{}, err
	}
	return openAIResponseOf(wire.Model, wire.Choices[0].FinishReason, wire.Choices[0].Message, wire.Usage.value), nil
}

// openAIResponseOf translates the message of a choice.
func openAIResponseOf(model, finish string, message openAIAnswer, usage openAIUsage) agent.Response {
	res := agent.Response{
		Model:      model,
		StopReason: openAIStop(finish),
		Usage: agent.Usage{
			Input: usage.PromptTokens, Output: usage.CompletionTokens,
			CachedInput: usage.Details.CachedTokens,
		},
	}
	text := string(message.Content)
	if message.Refusal != "" {
		text += message.Refusal
		res.StopReason = agent.StopRefusal
	}
	if text != "" {
		res.Content = append(res.Content, agent.Text(text))
	}
	for _, call := range message.ToolCalls {
		res.Content = append(res.Content, agent.ToolUse(call.ID, call.Function.Name, toolInput(call.Function.Arguments)))
	}
	return res
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
	encoded, err := jsonform.Encode(text)
	if err != nil {
		return json.RawMessage(`""`) // impossible: every string can be encoded
	}
	return encoded
}

// finishError returns the error of a turn that ended because the provider failed, as OpenRouter and DeepSeek say it.
func finishError(reason string, header http.Header, key string) error {
	if reason != "error" && reason != "insufficient_system_resource" {
		return nil
	}
	return streamError(json.RawMessage(`"the provider behind the server failed"`), header, key, true)
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
