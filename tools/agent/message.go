package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/stevedore-bus/stevedore/tools/jsonform"
)

// Roles of messages.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Types of blocks that the loop reads. It passes all others on unchanged.
const (
	TypeText       = "text"
	TypeToolUse    = "tool_use"
	TypeToolResult = "tool_result"
	TypeImage      = "image"
)

// Message is one message of a conversation, in the format of Anthropic's API.
type Message struct {
	Role    string  `json:"role"`
	Content []Block `json:"content"`
}

// Block is one content block. A decoded block is encoded again exactly as it was,
// unknown fields included, so that models get their own words back unchanged, for
// example thinking with its signature. Do not change its fields.
type Block struct {
	Type string
	// Text of a text block.
	Text string
	// ID, Name and Input of a tool_use.
	ID, Name string
	Input    json.RawMessage
	// ToolUseID, Content (a JSON string or an array of blocks) and IsError of a
	// tool_result.
	ToolUseID string
	Content   json.RawMessage
	IsError   bool

	raw json.RawMessage // the encoded block, if it was decoded
}

// Text returns a text block.
func Text(text string) Block { return Block{Type: TypeText, Text: text} }

// ToolUse returns a block that calls a tool; nil input means {}.
func ToolUse(id, name string, input json.RawMessage) Block {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	return Block{Type: TypeToolUse, ID: id, Name: name, Input: input}
}

// ToolResult returns the block with the result of a tool_use.
func ToolResult(toolUseID, text string, isError bool) Block {
	content, _ := jsonform.Encode(text) // texts do not fail
	return Block{Type: TypeToolResult, ToolUseID: toolUseID, Content: content, IsError: isError}
}

// blockFields are the fields of a block that this package reads and writes.
type blockFields struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

// UnmarshalJSON keeps the encoded block and reads the known fields.
func (b *Block) UnmarshalJSON(data []byte) error {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return fmt.Errorf("content block: %w", err)
	}
	*b = Block{Type: kind.Type, raw: bytes.Clone(data)}
	switch kind.Type {
	case TypeText, TypeToolUse, TypeToolResult:
	default:
		return nil // fields of other types may have any form
	}
	var f blockFields
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("content block of type %q: %w", kind.Type, err)
	}
	if f.Text != nil {
		b.Text = *f.Text
	}
	b.ID, b.Name, b.Input = f.ID, f.Name, f.Input
	b.ToolUseID, b.Content, b.IsError = f.ToolUseID, f.Content, f.IsError
	return nil
}

// MarshalJSON returns a decoded block as it was.
func (b Block) MarshalJSON() ([]byte, error) {
	if b.raw != nil {
		return b.raw, nil
	}
	f := blockFields{
		Type: b.Type, ID: b.ID, Name: b.Name, Input: b.Input,
		ToolUseID: b.ToolUseID, Content: b.Content, IsError: b.IsError,
	}
	if b.Type == TypeText {
		f.Text = &b.Text
	}
	return jsonform.Encode(f)
}

// ResultText returns the text of a tool_result. It joins text blocks with line
// ends.
func (b Block) ResultText() string {
	var text string
	if json.Unmarshal(b.Content, &text) == nil {
		return text
	}
	var blocks []Block
	if json.Unmarshal(b.Content, &blocks) != nil {
		return string(b.Content)
	}
	return TextOf(blocks)
}

// TextOf joins the texts of the text blocks with line ends.
func TextOf(blocks []Block) string {
	var out []byte
	for _, b := range blocks {
		if b.Type != TypeText || b.Text == "" {
			continue
		}
		if len(out) > 0 {
			out = append(out, '\n')
		}
		out = append(out, b.Text...)
	}
	return string(out)
}

// isBlank reports whether the block is a text that shows nothing: white space, and signs
// without a form such as U+200B. Anthropic rejects each request with a text of white space.
func (b Block) isBlank() bool {
	return b.Type == TypeText && strings.TrimFunc(b.Text, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }) == ""
}

// ToolUses returns the tool_use blocks, in order.
func ToolUses(blocks []Block) []Block {
	var uses []Block
	for _, b := range blocks {
		if b.Type == TypeToolUse {
			uses = append(uses, b)
		}
	}
	return uses
}
