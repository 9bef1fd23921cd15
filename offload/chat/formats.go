package chat

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// responseItem matches the types of items of OpenAI's Responses API.
var responseItem = regexp.MustCompile(`^"(message|reasoning|item_reference|compaction|mcp_\w+|\w+_call(_output)?)"$`)

// otherResults returns the results of a message that are not in the format of Anthropic or of
// OpenAI's Chat Completions: an item of OpenAI's Responses API, parts of Gemini, or blocks and
// parts of the Vercel AI SDK. The error names a format that the package does not understand.
func (m Message) otherResults() (results []block, err error) {
	refuse := func(found, of string) error {
		return fmt.Errorf("it has %s, the format of %s; only those of Anthropic, OpenAI (Chat Completions and Responses), Gemini and the "+
			"Vercel AI SDK are understood", found, of)
	}
	top, err := m.fields(span{0, len(m.text)}, "role", "type", "call_id", "output", "parts", "lc", "tool_call_id", "toolInvocations", "id", "content", "tool_name")
	if err != nil {
		return nil, err
	}
	role, kind := top["role"].of(m.text), top["type"].of(m.text)
	switch {
	case role == `"function"` && top["parts"] == (span{}):
		return nil, refuse(`the role "function"`, "an old API of OpenAI")
	case top["lc"] != (span{}):
		return nil, refuse(`the field "lc"`, "LangChain")
	case role == "" && (slices.Contains([]string{`"human"`, `"ai"`, `"tool"`, `"system"`}, kind) || top["tool_call_id"] != (span{})):
		return nil, refuse("the type "+kind+" and no role", "LangChain")
	case role == "" && kind == "" && top["parts"] == (span{}) && top["content"] == (span{}):
		return nil, refuse("no role, type, content or parts", "another program")
	case role != `"tool"` && strings.EqualFold(role, `"tool"`), role == `"tool"` && top["parts"] == (span{}) && top["content"] == (span{}):
		return nil, refuse("the role "+role+" and no content as that of OpenAI", "another program")
	case role == "" && kind != "" && !responseItem.MatchString(kind):
		return nil, refuse("the type "+kind+" and no role", "another program")
	case kind == `"function_call_output"` || kind == `"custom_tool_call_output"`:
		results = append(results, m.resultAt(top["call_id"], top["output"]))
	case kind == `"local_shell_call_output"` || kind == `"mcp_call"`:
		results = append(results, m.resultAt(top["id"], top["output"]))
	case kind == `"shell_call_output"`:
		err = m.addOutputs(&results, top["call_id"], top["output"])
	case role == `"tool"` && top["tool_call_id"] == (span{}) && kindOf(m.contentText()) == "a string": // of Ollama, which has no ids
		results = append(results, m.resultAt(top["tool_name"], m.content))
	}
	if err != nil {
		return nil, err
	}
	for _, list := range []span{m.content, top["parts"], top["toolInvocations"]} {
		if kindOf(list.of(m.text)) != "an array" {
			continue
		}
		for _, at := range members(list.of(m.text)) {
			if at = at.after(list.start); m.text[at.start] != '{' {
				continue
			}
			f, err := m.fields(at, "toolCallId", "output", "result", "functionResponse", "function_response", "toolResult", "toolInvocation", "part_kind",
				"tool_use_id", "content", "codeExecutionResult", "code_execution_result")
			if err == nil && kindOf(f["toolInvocation"].of(m.text)) == "an object" { // a part of version 4 of the Vercel AI SDK
				f, err = m.fields(f["toolInvocation"], "toolCallId", "output", "result")
			}
			response, output := cmp.Or(f["functionResponse"], f["function_response"]), cmp.Or(f["output"], f["result"])
			executed := cmp.Or(f["codeExecutionResult"], f["code_execution_result"])
			switch {
			case err != nil:
				return nil, err
			case f["part_kind"] != (span{}):
				return nil, refuse("a part_kind", "Pydantic AI")
			case f["toolResult"] != (span{}):
				return nil, refuse("a toolResult", "Amazon Bedrock")
			case response != (span{}):
				err = m.addResponse(&results, response)
			case f["toolCallId"] != (span{}) && output != (span{}):
				err = m.addOutput(&results, f["toolCallId"], output)
			case f["tool_use_id"] != (span{}) && kindOf(f["content"].of(m.text)) == "an object": // a code_execution_tool_result of Anthropic
				err = m.addText(&results, f["tool_use_id"], f["content"], "stdout")
			case executed != (span{}):
				err = m.addText(&results, span{}, executed, "output")
			}
			if err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(results, func(a, b block) int { return a.at.start - b.at.start })
	return results, nil
}

// fields is pick for an object in the text of the message.
func (m Message) fields(object span, names ...string) (map[string]span, error) {
	found, err := pick(object.of(m.text), names...)
	for name, value := range found {
		found[name] = value.after(object.start)
	}
	return found, err
}

// after returns the span of a part in a text in which the text of s begins at offset.
func (s span) after(offset int) span { return span{s.start + offset, s.end + offset} }

func (m Message) resultAt(id, value span) block {
	b := block{result: true, value: value.of(m.text), at: value}
	if text := id.of(m.text); kindOf(text) == "a string" {
		b.id = unquote(text)
	}
	return b
}

// addText adds a field of an object whose other fields must stay, if it is a text.
func (m Message) addText(results *[]block, id, object span, name string) error {
	if kindOf(object.of(m.text)) != "an object" {
		return nil
	}
	f, err := m.fields(object, name)
	if err == nil && kindOf(f[name].of(m.text)) == "a string" {
		*results = append(*results, m.resultAt(id, f[name]))
	}
	return err
}

// addOutputs adds what the commands of OpenAI's shell tool printed.
func (m Message) addOutputs(results *[]block, id, list span) error {
	if kindOf(list.of(m.text)) != "an array" {
		return nil
	}
	for _, at := range members(list.of(m.text)) {
		if err := m.addText(results, id, at.after(list.start), "stdout"); err != nil {
			return err
		}
	}
	return nil
}

// addOutput adds a result of the Vercel AI SDK: the value of an output with a type, or an output of
// any form.
func (m Message) addOutput(results *[]block, id, output span) error {
	b := m.resultAt(id, output)
	if kindOf(b.value) == "an object" {
		f, err := m.fields(output, "type", "value")
		if err != nil {
			return err
		}
		switch kind := f["type"].of(m.text); {
		case f["value"] == (span{}):
		case kind == `"content"`: // its value must be a list
			b.value, b.before, b.behind = f["value"].of(m.text), `{"type":"text","value":`, "}"
		case kind != "":
			b = m.resultAt(id, f["value"])
		}
	}
	*results = append(*results, b)
	return nil
}

// addResponse adds a functionResponse of Gemini. Its response must stay an object.
func (m Message) addResponse(results *[]block, at span) error {
	if m.text[at.start] != '{' {
		return nil
	}
	f, err := m.fields(at, "id", "name", "response")
	if err != nil {
		return err
	}
	id := cmp.Or(f["id"], f["name"])
	b := m.resultAt(id, f["response"])
	if kindOf(b.value) == "an object" {
		var values []span
		for _, value := range members(b.value) {
			values = append(values, value.after(f["response"].start))
		}
		if b.before, b.behind = `{"output":`, "}"; len(values) == 1 && m.text[values[0].start] == '"' {
			b = m.resultAt(id, values[0])
		}
	}
	*results = append(*results, b)
	return nil
}
