package chat

import (
	"errors"
	"fmt"
)

// Message is one chat message: a JSON object whose content is a string, an array of
// blocks, or absent. It is immutable, and messages with the same text are equal (==).
// The zero Message is invalid: use ParseMessage.
type Message struct {
	text    string // normalized JSON
	content span   // of the content field's value in text; empty if there is none
}

// ErrNoContent means that the message has no content to offload.
var ErrNoContent = errors.New("the message has no content")

// ParseMessage parses one message. It refuses text that is not JSON or not UTF-8,
// nesting beyond 10,000 levels, a message that is not an object, content that is neither
// a string nor an array (null means absent), and duplicates of a field that it reads.
func ParseMessage(data []byte) (Message, error) {
	text, err := normalize(data)
	if err != nil {
		return Message{}, fmt.Errorf("parse message: %w", err)
	}
	m, err := newMessage(text)
	if err != nil {
		return Message{}, fmt.Errorf("parse message: %w", err)
	}
	return m, nil
}

// ParseHistory parses an array of messages, oldest first.
func ParseHistory(data []byte) ([]Message, error) {
	text, err := normalize(data)
	if err != nil {
		return nil, fmt.Errorf("parse history: %w", err)
	}
	if text[0] != '[' {
		return nil, fmt.Errorf("parse history: the history is %s, not an array of messages%s", kindOf(text), ofRequest(text))
	}
	messages := []Message{}
	for _, at := range members(text) {
		m, err := newMessage(at.of(text))
		if err != nil {
			return nil, fmt.Errorf("parse history: message %d: %w", len(messages), err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// ofRequest says where the messages of a whole request are.
func ofRequest(text string) string {
	if text[0] != '{' {
		return ""
	}
	for _, name := range []string{"messages", "input", "contents"} { // of Anthropic and OpenAI, Responses, Gemini
		if found, err := pick(text, name); err == nil && kindOf(found[name].of(text)) == "an array" {
			return fmt.Sprintf("; it has them in its field %q, as in jq .%s", name, name)
		}
	}
	return ""
}

// String returns the message as JSON, in the form of JSON.stringify.
func (m Message) String() string { return m.text }

// MarshalJSON returns the message as JSON. json.Marshal escapes <, > and & in it; an
// Encoder with SetEscapeHTML(false) does not.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.text == "" {
		return nil, errors.New("the zero chat.Message is not a message")
	}
	return []byte(m.text), nil
}

// UnmarshalJSON is ParseMessage.
func (m *Message) UnmarshalJSON(data []byte) error {
	parsed, err := ParseMessage(data)
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

func newMessage(text string) (Message, error) {
	if text[0] != '{' {
		return Message{}, fmt.Errorf("it is %s, not an object with role and content", kindOf(text))
	}
	found, err := pick(text, "content")
	if err != nil {
		return Message{}, err
	}
	m := Message{text: text, content: found["content"]}
	switch content := m.content.of(text); kindOf(content) {
	case "a string", "nothing":
	case "null":
		m.content = span{}
	case "an array":
		for b, err := range m.blocks() {
			if err != nil {
				return Message{}, fmt.Errorf("block %d: %w", b.index, err)
			}
		}
	default:
		return Message{}, fmt.Errorf("its content is %s, not a string or an array of blocks", kindOf(content))
	}
	return m, nil
}

// toolCallID returns the tool_call_id of a message with the role "tool", as OpenAI's API
// has it, otherwise "".
func (m Message) toolCallID() string {
	found, err := pick(m.text, "role", "tool_call_id")
	if err != nil || found["role"].of(m.text) != `"tool"` {
		return ""
	}
	if id := found["tool_call_id"].of(m.text); kindOf(id) == "a string" {
		return unquote(id)
	}
	return ""
}

// contentText returns the value of the content field.
func (m Message) contentText() string { return m.content.of(m.text) }
