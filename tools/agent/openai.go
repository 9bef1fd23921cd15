package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

const (
	openAIBase = "https://api.openai.com/v1"
	// maxAnswer bounds the body of an answer.
	maxAnswer = 64 << 20
)

// OpenAI is a model behind a server that speaks chat completions: OpenAI's,
// Ollama, vLLM, OpenRouter, DeepSeek and many others.
type OpenAI struct {
	endpoint, model string
	cfg             ProviderConfig
}

// NewOpenAI returns the named model.
func NewOpenAI(model string, cfg ProviderConfig) (*OpenAI, error) {
	base := cfg.BaseURL
	if base == "" {
		base = openAIBase
	}
	endpoint, err := url.JoinPath(base, "chat/completions")
	if err == nil && !strings.HasPrefix(endpoint, "http") {
		err = errors.New("want http:// or https://")
	}
	if err != nil {
		return nil, fmt.Errorf("base URL of the model: %w", err)
	}
	return &OpenAI{endpoint: endpoint, model: model, cfg: cfg.withDefaults()}, nil
}

// Complete asks the model.
func (o *OpenAI) Complete(ctx context.Context, req Request) (Response, error) {
	wire := openAIRequest{Model: o.model, Messages: openAIMessages(req)}
	// OpenAI refuses the old name for its newer models; others know only that.
	if o.cfg.BaseURL == "" {
		wire.MaxCompletionTokens = req.maxTokens()
	} else {
		wire.MaxTokens = req.maxTokens()
	}
	for _, def := range req.Tools {
		wire.Tools = append(wire.Tools, openAITool{Type: "function", Function: openAIFunction{
			Name: def.Name, Description: def.Description, Parameters: schemaOf(def),
		}})
	}
	body, err := encode(wire)
	if err != nil {
		return Response{}, &ProviderError{Code: CodeBadRequest, Message: err.Error()}
	}
	return persist(ctx, o.cfg.Patience, func() (Response, error) { return o.once(ctx, body) })
}

func (o *OpenAI) once(ctx context.Context, body []byte) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.endpoint, bytes.NewReader(body))
	if err != nil {
		return Response{}, &ProviderError{Code: CodeUnreachable, Message: cleanError(err.Error(), o.cfg.APIKey)}
	}
	req.Header.Set("Content-Type", "application/json")
	if o.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+o.cfg.APIKey)
	}
	res, err := o.cfg.HTTPClient.Do(req)
	if err != nil {
		return Response{}, unreachable(err, o.cfg.APIKey)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return Response{}, unreachable(err, o.cfg.APIKey)
	}
	if res.StatusCode != http.StatusOK {
		return Response{}, apiError(res.StatusCode, res.Header, data, o.cfg.APIKey)
	}
	var wire openAIResponse
	if err := json.Unmarshal(data, &wire); err != nil {
		return Response{}, badAnswer("not JSON: %v", err)
	}
	failure := wire.Error
	if len(wire.Choices) > 0 && isSet(wire.Choices[0].Error) {
		failure = wire.Choices[0].Error
	}
	if isSet(failure) {
		return Response{}, insideError(failure, res.Header, o.cfg.APIKey)
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
