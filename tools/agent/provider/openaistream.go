package provider

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// openAIStream collects the chunks of
// https://platform.openai.com/docs/api-reference/chat-streaming. Servers differ most in
// the chunks of tool calls; see call.
type openAIStream struct {
	key     string // to remove from errors
	text    textReporter
	started bool
	done    bool // [DONE] arrived
	model   string
	finish  string
	usage   openAIUsage
	content strings.Builder
	refusal strings.Builder
	calls   []*openAIStreamCall
}

type openAIStreamCall struct {
	index     *int
	id, name  string
	arguments strings.Builder
}

// openAIChunk is one event, or an answer in one piece, whose choices have a message.
type openAIChunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Index        int             `json:"index"`
		FinishReason string          `json:"finish_reason"`
		Error        json.RawMessage `json:"error"` // OpenRouter sends it instead of a message
		Delta        openAIDelta     `json:"delta"`
		Message      *openAIDelta    `json:"message"`
	} `json:"choices"`
	Error json.RawMessage `json:"error"`
	Usage json.RawMessage `json:"usage"`
}

type openAIDelta struct {
	Content   openAIText        `json:"content"`
	Refusal   string            `json:"refusal"`
	ToolCalls []openAICallDelta `json:"tool_calls"`
}

type openAICallDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (t *openAIStream) add(event sseEvent, header http.Header) (counts bool, err error) {
	if strings.TrimSpace(string(event.data)) == "[DONE]" {
		t.done = true
		return true, nil
	}
	var chunk openAIChunk
	if err := json.Unmarshal(event.data, &chunk); err != nil {
		return false, err
	}
	failure := chunk.Error
	for _, choice := range chunk.Choices {
		if isSet(choice.Error) {
			failure = choice.Error
		}
	}
	if isSet(failure) {
		return true, embeddedError(failure, header, t.key, t.started)
	}
	if isSet(chunk.Usage) {
		_ = json.Unmarshal(chunk.Usage, &t.usage)
		t.started = true
	}
	t.model = cmp.Or(chunk.Model, t.model)
	for i, choice := range chunk.Choices {
		if event.whole {
			choice.Index = i // servers count from 1, or not at all
		}
		if choice.Index != 0 {
			continue
		}
		part, whole := choice.Delta, event.whole && choice.Message != nil
		if whole {
			part, choice.FinishReason = *choice.Message, cmp.Or(choice.FinishReason, "stop")
		}
		t.started = true
		t.content.WriteString(string(part.Content))
		t.text.report(string(part.Content))
		t.refusal.WriteString(part.Refusal)
		t.text.report(part.Refusal)
		for _, delta := range part.ToolCalls {
			call := t.call(delta, whole)
			if len(t.calls) > maxBlocks {
				return false, badAnswer("it has more than %d tool calls", maxBlocks)
			}
			call.id = cmp.Or(call.id, delta.ID)
			call.name = cmp.Or(call.name, delta.Function.Name) // some servers repeat it
			call.arguments.WriteString(delta.Function.Arguments)
		}
		if err := finishError(choice.FinishReason, header, t.key); err != nil {
			return true, err
		}
		t.finish = cmp.Or(choice.FinishReason, t.finish)
	}
	return true, nil
}

// call returns the call that a chunk belongs to. The chunks of a call have the same
// index, and the first one has the id. Some servers send no index, or the same index
// for all calls: then another id starts another call, or a name with arguments behind
// complete ones. A whole message has whole calls.
func (t *openAIStream) call(delta openAICallDelta, whole bool) *openAIStreamCall {
	for i := len(t.calls) - 1; i >= 0 && !whole; i-- {
		call := t.calls[i]
		sameIndex := delta.Index == nil || call.index == nil || *delta.Index == *call.index
		sameID := delta.ID == "" || call.id == "" || delta.ID == call.id
		if sameIndex && sameID && (delta.Index != nil || delta.ID != "" || delta.Function.Name == "") {
			if delta.Function.Name != "" && strings.HasPrefix(delta.Function.Arguments, "{") && call.isComplete() {
				break
			}
			return call
		}
	}
	call := &openAIStreamCall{index: delta.Index}
	t.calls = append(t.calls, call)
	return call
}

// isComplete reports whether the arguments are a whole object.
func (c *openAIStreamCall) isComplete() bool {
	text := c.arguments.String()
	return strings.HasSuffix(text, "}") && json.Valid([]byte(text))
}

func (t *openAIStream) ended() bool { return t.done }

func (t *openAIStream) response() (res agent.Response, complete, started bool) {
	res = agent.Response{
		Model: t.model, StopReason: openAIStop(t.finish),
		Usage: agent.Usage{Input: t.usage.PromptTokens, Output: t.usage.CompletionTokens, CachedInput: t.usage.Details.CachedTokens},
	}
	if t.refusal.Len() > 0 {
		res.StopReason = agent.StopRefusal
	}
	if text := t.content.String() + t.refusal.String(); text != "" {
		res.Content = append(res.Content, agent.Text(text))
	}
	for _, call := range t.calls {
		res.Content = append(res.Content, agent.ToolUse(call.id, call.name, toolInput(call.arguments.String())))
	}
	complete = t.started && (t.finish != "" || t.done && (len(res.Content) > 0))
	return res, complete, t.started
}
