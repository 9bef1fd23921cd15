package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The shapes of https://platform.openai.com/docs/api-reference/chat.

type openAIRequest struct {
	Model               string          `json:"model"`
	Messages            []openAIMessage `json:"messages"`
	Tools               []openAITool    `json:"tools,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
}

type openAIMessage struct {
	Role string `json:"role"`
	// Content is a string or an array of parts; nil beside tool calls.
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
	Name        string             `json:"name"`
	Description string             `json:"description,omitempty"`
	Parameters  *jsonschema.Schema `json:"parameters"`
}

type openAIPart struct {
	Type     string             `json:"type"`
	Text     string             `json:"text,omitempty"`
	ImageURL *map[string]string `json:"image_url,omitempty"`
}

type openAIResponse struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content   openAIText   `json:"content"`
			Refusal   string       `json:"refusal"`
			ToolCalls []openAICall `json:"tool_calls"`
		} `json:"message"`
		Error json.RawMessage `json:"error"` // instead of a turn, as OpenRouter has it
	} `json:"choices"`
	Error json.RawMessage `json:"error"`
	Usage struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		Details          struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// openAIText is a content: a string, or the texts of an array of parts, which
// some servers send.
type openAIText string

// UnmarshalJSON leaves out parts that are no text.
func (t *openAIText) UnmarshalJSON(data []byte) error {
	if len(data) == 0 || data[0] != '[' {
		return json.Unmarshal(data, (*string)(t))
	}
	var parts []Block
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	*t = openAIText(textOf(parts))
	return nil
}

// openAIMessages translates a conversation. What the protocol cannot say is
// said in words (is_error), sent beside (images of results), or left out
// (thinking).
func openAIMessages(req Request) []openAIMessage {
	var out []openAIMessage
	if req.System != "" {
		out = append(out, openAIMessage{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		if m.Role == RoleAssistant {
			out = append(out, openAITurn(m.Content))
			continue
		}
		var parts []openAIPart
		for _, b := range m.Content {
			switch b.Type {
			case TypeToolResult:
				text := b.resultText()
				if b.IsError {
					text = "The tool failed: " + text
				}
				out = append(out, openAIMessage{Role: "tool", ToolCallID: b.ToolUseID, Content: text})
				var inner []Block
				if json.Unmarshal(b.Content, &inner) == nil {
					parts = append(parts, openAIImages(inner)...)
				}
			case TypeText:
				parts = append(parts, openAIPart{Type: "text", Text: b.Text})
			default:
				parts = append(parts, openAIImages([]Block{b})...)
			}
		}
		if len(parts) > 0 {
			out = append(out, openAIMessage{Role: "user", Content: openAIContent(parts)})
		}
	}
	return out
}

// openAIContent is a string where it can be one: not all servers take parts.
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

// openAITurn is a turn of the model, as it said it.
func openAITurn(content []Block) openAIMessage {
	m := openAIMessage{Role: "assistant"}
	if text := textOf(content); text != "" {
		m.Content = text
	}
	for _, use := range toolUses(content) {
		call := openAICall{ID: use.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = use.Name, string(use.Input)
		m.ToolCalls = append(m.ToolCalls, call)
	}
	if m.Content == nil && m.ToolCalls == nil {
		m.Content = ""
	}
	return m
}

// openAIImages are the images among blocks.
func openAIImages(blocks []Block) []openAIPart {
	var parts []openAIPart
	for _, b := range blocks {
		var image struct {
			Type   string `json:"type"`
			Source struct {
				Type      string `json:"type"`
				MediaType string `json:"media_type"`
				Data      string `json:"data"`
				URL       string `json:"url"`
			} `json:"source"`
		}
		if b.raw == nil || json.Unmarshal(b.raw, &image) != nil || image.Type != "image" {
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
