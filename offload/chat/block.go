package chat

import (
	"fmt"
	"iter"
	"strings"
)

// block is one element of a message's content, which may be any JSON value. Only a
// block of the type tool_result is a result.
type block struct {
	index  int
	text   string
	result bool
	id     string // of a result: its tool_use_id, "" if it has no usable id
	value  string // of a result: its content; "" if absent
	at     span   // of the content in the message's text
	// before and behind are JSON around a reference in place of the content.
	before, behind string
}

// blocks yields the blocks of a message whose content is an array. In a Message of
// newMessage, there are no errors.
func (m Message) blocks() iter.Seq2[block, error] {
	return func(yield func(block, error) bool) {
		content := m.contentText()
		if kindOf(content) != "an array" {
			return
		}
		index := 0
		for _, at := range members(content) {
			b, err := newBlock(at.of(content), m.content.start+at.start)
			b.index = index
			if !yield(b, err) {
				return
			}
			index++
		}
	}
}

func newBlock(text string, offset int) (block, error) {
	b := block{text: text}
	if text[0] != '{' {
		return b, nil
	}
	found, err := pick(text, "type", "tool_use_id", "content")
	if err != nil {
		return b, err
	}
	kind := found["type"].of(text)
	b.result = kind == `"tool_result"` || kind == `"mcp_tool_result"`
	if id := found["tool_use_id"].of(text); kindOf(id) == "a string" {
		b.id = unquote(id)
	}
	b.value = found["content"].of(text)
	b.at = span{offset + found["content"].start, offset + found["content"].end}
	return b, nil
}

// historyResults yields the tool results of a message: its blocks, its whole content if it has
// the role "tool" and a tool_call_id, or those of other formats.
func (m Message) historyResults() iter.Seq[block] {
	return func(yield func(block) bool) {
		blocks := false
		for b := range m.results() {
			blocks = true
			if !yield(b) {
				return
			}
		}
		if id := m.toolCallID(); !blocks && id != "" && m.content != (span{}) {
			content := m.contentText()
			yield(block{text: content, result: true, id: id, value: content, at: m.content})
			return
		}
		others, _ := m.otherResults() // OffloadHistoryTo returns the error
		for _, b := range others {
			if !yield(b) {
				return
			}
		}
	}
}

// results yields the tool_result blocks of a message.
func (m Message) results() iter.Seq[block] {
	return func(yield func(block) bool) {
		for b := range m.blocks() {
			if b.result && !yield(b) {
				return
			}
		}
	}
}

// offloadable reports whether a result has a content that is not a reference yet.
func (b block) offloadable() bool {
	switch b.value {
	case "", "null", `""`:
		return false
	}
	return reference(b.value) == ""
}

// contentLength returns the length of a string, or the length of the JSON of any other
// content; 0 if it is absent.
func contentLength(value string) int {
	if kindOf(value) == "a string" {
		return length(unquote(value))
	}
	return length(value)
}

// weight returns the characters of a block in the total of a history: those of the
// text of a text block, the input of a tool_use, the content of a tool_result, or the
// JSON of any other block.
func (b block) weight() int {
	if b.result {
		return contentLength(b.value)
	}
	if b.text[0] != '{' {
		return length(b.text)
	}
	found, err := pick(b.text, "type", "text", "input")
	if err != nil {
		return length(b.text)
	}
	text, input := found["text"].of(b.text), found["input"].of(b.text)
	switch found["type"].of(b.text) {
	case `"text"`:
		if kindOf(text) == "a string" {
			return contentLength(text)
		}
	case `"tool_use"`:
		if input != "" {
			return length(input)
		}
	}
	return length(b.text)
}

// replacement is new JSON for a part of a message.
type replacement struct {
	at   span
	with string
}

// replace returns a copy of m with parts replaced. The parts are in
// ascending order.
func (m Message) replace(parts []replacement) Message {
	if len(parts) == 0 {
		return m
	}
	var text strings.Builder
	copied := 0
	for _, part := range parts {
		text.WriteString(m.text[copied:part.at.start])
		text.WriteString(part.with)
		copied = part.at.end
	}
	text.WriteString(m.text[copied:])
	made, err := newMessage(text.String())
	if err != nil {
		panic(fmt.Sprintf("chat: a message broke while its parts were replaced: %v", err))
	}
	return made
}
