package provider

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

// The shapes of https://platform.openai.com/docs/api-reference/chat.

type openAIRequest struct {
	Model               string          `json:"model"`
	Messages            []openAIMessage `json:"messages"`
	Tools               []openAITool    `json:"tools,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       map[string]bool `json:"stream_options,omitempty"`
}

type openAIMessage struct {
	Role string `json:"role"`
	// Content is a string, an array of parts, or nil if there are only tool calls.
	Content    any          `json:"content"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type openAICall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type openAIPart struct {
	Type     string             `json:"type"`
	Text     string             `json:"text,omitempty"`
	ImageURL *map[string]string `json:"image_url,omitempty"`
}

type openAIUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	Details          struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// openAIText is the text of a message. Most servers send a string, some send an
// array of parts.
type openAIText string

// UnmarshalJSON skips parts that are not text.
func (t *openAIText) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return json.Unmarshal(data, (*string)(t))
	}
	var parts []agent.Block
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	*t = openAIText(agent.TextOf(parts))
	return nil
}

// openAIMessages translates a conversation. The API has no is_error, so a text
// says that a call failed, or which parts of its result are left out; images of tool results go into a user message; thinking
// blocks are left out.
func openAIMessages(req agent.Request) []openAIMessage {
	var out []openAIMessage
	if req.System != "" {
		out = append(out, openAIMessage{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		if m.Role == agent.RoleAssistant {
			out = append(out, openAITurn(m.Content))
			continue
		}
		var parts []openAIPart
		for _, b := range m.Content {
			switch b.Type {
			case agent.TypeToolResult:
				text := b.ResultText()
				if b.IsError {
					text = "The tool failed: " + text
				}
				var inner []agent.Block
				if json.Unmarshal(b.Content, &inner) == nil {
					parts = append(parts, openAIImages(inner...)...)
				}
				for _, part := range inner {
					if part.Type != agent.TypeText && part.Type != agent.TypeImage {
						text += fmt.Sprintf("\n[A part of the result is not shown, because this API takes none of the type %s]", part.Type)
					}
				}
				out = append(out, openAIMessage{Role: "tool", ToolCallID: b.ToolUseID, Content: text})
			case agent.TypeText:
				parts = append(parts, openAIPart{Type: "text", Text: b.Text})
			default:
				parts = append(parts, openAIImages(b)...)
			}
		}
		if len(parts) > 0 {
			out = append(out, openAIMessage{Role: "user", Content: openAIContent(parts)})
		}
	}
	return out
}

// openAIContent is a string if all parts are text: some servers accept no parts.
func openAIContent(parts []openAIPart) any {
	texts := make([]string, len(parts))
	for i, part := range parts {
		if part.Type != "text" {
			return parts
		}
		texts[i] = part.Text
	}
	return strings.Join(texts, "\n\n")
}

func openAITurn(content []agent.Block) openAIMessage {
	m := openAIMessage{Role: "assistant"}
	if text := agent.TextOf(content); text != "" {
		m.Content = text
	}
	for _, use := range agent.ToolUses(content) {
		call := openAICall{ID: use.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = use.Name, string(use.Input)
		m.ToolCalls = append(m.ToolCalls, call)
	}
	if m.Content == nil && m.ToolCalls == nil {
		m.Content = ""
	}
	return m
}

// openAIImages translates the images among blocks.
func openAIImages(blocks ...agent.Block) []openAIPart {
	var parts []openAIPart
	for _, b := range blocks {
		var image struct {
			Source struct {
				Type      string `json:"type"`
				MediaType string `json:"media_type"`
				Data      string `json:"data"`
				URL       string `json:"url"`
			} `json:"source"`
		}
		data, err := b.MarshalJSON()
		if err != nil || b.Type != agent.TypeImage || json.Unmarshal(data, &image) != nil {
			continue
		}
		address := image.Source.URL
		if image.Source.Type == "base64" {
			address = fmt.Sprintf("data:%s;base64,%s", image.Source.MediaType, image.Source.Data)
		}
		parts = append(parts, openAIPart{Type: "image_url", ImageURL: &map[string]string{"url": address}})
	}
	return parts
}
