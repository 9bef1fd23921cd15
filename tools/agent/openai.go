package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

const openAIBase = "https://api.openai.com/v1"

// OpenAI is a model behind a server that speaks chat completions: OpenAI's,
// Ollama, vLLM, OpenRouter, DeepSeek and many others.
type OpenAI struct {
	client *client
	model  string
	// openAIsOwn: the server is OpenAI's own. It rejects max_tokens for its newer
	// models; other servers know only that.
	openAIsOwn bool
}

// NewOpenAI returns the named model.
func NewOpenAI(model string, cfg ProviderConfig) (*OpenAI, error) {
	header := map[string]string{}
	if cfg.APIKey != "" {
		header["Authorization"] = "Bearer " + cfg.APIKey
	}
	c, err := newClient(cfg, openAIBase, "chat/completions", header)
	return &OpenAI{client: c, model: model, openAIsOwn: cfg.BaseURL == ""}, err
}

// Complete asks the model.
func (o *OpenAI) Complete(ctx context.Context, req Request) (Response, error) {
	wire := openAIRequest{Model: o.model, Messages: openAIMessages(req)}
	if o.openAIsOwn {
		wire.MaxCompletionTokens = req.maxTokens()
	} else {
		wire.MaxTokens = req.maxTokens()
	}
	for _, def := range req.Tools {
		wire.Tools = append(wire.Tools, openAITool{Type: "function", Function: openAIFunction{
			Name: def.Name, Description: def.Description, Parameters: schemaOf(def),
		}})
	}
	return o.client.complete(ctx, wire, o.answer)
}

func (o *OpenAI) answer(data []byte, header http.Header) (Response, error) {
	var wire openAIResponse
	if err := json.Unmarshal(data, &wire); err != nil {
		return Response{}, badAnswer("not JSON: %v", err)
	}
	failure := wire.Error
	if len(wire.Choices) > 0 && isSet(wire.Choices[0].Error) {
		failure = wire.Choices[0].Error
	}
	if isSet(failure) {
		return Response{}, insideError(failure, header, o.client.cfg.APIKey)
	}
	return openAIAnswer(wire)
}

// openAIAnswer reads an answer.
func openAIAnswer(wire openAIResponse) (Response, error) {
	if len(wire.Choices) == 0 {
		return Response{}, badAnswer("it has no choices; is this the address of a chat completions API?")
	}
	message := wire.Choices[0].Message
	res := Response{
		Model:      wire.Model,
		StopReason: openAIStop(wire.Choices[0].FinishReason),
		Usage: Usage{
			Input: wire.Usage.PromptTokens, Output: wire.Usage.CompletionTokens,
			CachedInput: wire.Usage.Details.CachedTokens,
		},
	}
	text := string(message.Content)
	if message.Refusal != "" {
		text += message.Refusal
		res.StopReason = StopRefusal
	}
	if text != "" {
		res.Content = append(res.Content, Text(text))
	}
	for _, call := range message.ToolCalls {
		input, err := openAIInput(call.Function.Arguments)
		if err != nil {
			return Response{}, badAnswer("the arguments of %s: %v", tools.Excerpt(call.Function.Name, 64), err)
		}
		res.Content = append(res.Content, ToolUse(call.ID, call.Function.Name, input))
	}
	return res, nil
}

// openAIInput reads the arguments, which are JSON in a string. Those that a
// model got wrong become a JSON string: the tool's schema refuses it, and the
// model is told.
func openAIInput(arguments string) (json.RawMessage, error) {
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage("{}"), nil
	}
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments), nil
	}
	return encode(arguments)
}

func openAIStop(reason string) StopReason {
	switch reason {
	case "stop":
		return StopEndTurn
	case "tool_calls", "function_call":
		return StopToolUse
	case "length":
		return StopMaxTokens
	case "content_filter":
		return StopRefusal
	}
	return StopReason(reason)
}
