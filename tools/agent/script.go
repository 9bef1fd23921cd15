package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// Script is a Provider that speaks from a file, for demos and tests without a
// key. The file holds JSON objects, one a line (the second one is broken up
// here): the assistant's turns, in order.
//
//	{"text":"Let me look.", "tools":[{"name":"grep","input":{"pattern":"needle"}}]}
//	{"expect":["needle"], "capture":{"line":"(\\d+): .*needle"},
//	 "tools":[{"name":"get_knowledge_by_lines","input":{"artifact_id":"${id}","start_line":"${int:line-1}","end_line":"${int:line+1}"}}]}
//	{"text":"It stands in line ${line}."}
//
// Fields of a turn:
//
//	text     what the model says; may be left out
//	tools    calls that it asks for: name, input, and an id if it matters
//	expect   texts that must all occur in the last tool results, or else the
//	         turn is an error that shows what stood there
//	capture  names and regular expressions (RE2); the first group (or the whole
//	         match) in the last tool results becomes the value of the name
//	delay    how long the model thinks, such as "50ms"
//	usage    token counts: {"input_tokens":1,"output_tokens":2}
//	stop     the stop reason, if it is not tool_use or end_turn
//
// ${NAME} in a text, or in a string of an input, becomes the value; a string
// that is nothing but ${int:NAME}, ${int:NAME+N} or ${int:NAME-N} becomes a
// number.
//
// A line {"for":"REGEXP"} starts the turns of another conversation: those whose
// first message matches; sub-agents find their lines so. Turns before it are
// for all other conversations.
//
// A Script has no memory: which turn is next, and every captured value, follows
// from the request. So it goes on where it was in another process.
type Script struct {
	sections []section
}

type section struct {
	first *regexp.Regexp // of the conversation's first text; nil for all
	turns []scriptTurn
}

type scriptTurn struct {
	line    int
	text    string
	tools   []scriptTool
	expect  []string
	capture map[string]*regexp.Regexp
	delay   time.Duration
	usage   Usage
	stop    StopReason
}

type scriptTool struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// maxScript bounds a script, in bytes.
const maxScript = 64 << 20

// LoadScript reads a script from a file.
func LoadScript(name string) (*Script, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	err = errors.Join(err, f.Close())
	if err == nil && len(data) > maxScript {
		err = fmt.Errorf("it has more than %d bytes", maxScript)
	}
	if err != nil {
		return nil, fmt.Errorf("load script %q: %w", name, err)
	}
	s, err := ParseScript(data)
	if err != nil {
		return nil, fmt.Errorf("load script %q: %w", name, err)
	}
	return s, nil
}

// ParseScript reads a script. Unknown fields are errors: they are mostly typos.
func ParseScript(data []byte) (*Script, error) {
	s := &Script{sections: []section{{}}}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := s.add(line, n); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return s, nil
}

func (s *Script) add(line []byte, n int) error {
	var wire struct {
		For     *string           `json:"for"`
		Text    string            `json:"text"`
		Tools   []scriptTool      `json:"tools"`
		Expect  []string          `json:"expect"`
		Capture map[string]string `json:"capture"`
		Delay   string            `json:"delay"`
		Usage   Usage             `json:"usage"`
		Stop    StopReason        `json:"stop"`
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&wire); err != nil {
		return scriptFault(err)
	}
	if dec.More() {
		return errors.New("there is more behind the first object; write one a line")
	}
	if wire.For != nil {
		first, err := regexp.Compile(*wire.For)
		if err != nil {
			return fmt.Errorf("field \"for\": %w", err)
		}
		s.sections = append(s.sections, section{first: first})
		return nil
	}
	turn := scriptTurn{
		line: n, text: wire.Text, tools: wire.Tools, expect: wire.Expect,
		usage: wire.Usage, stop: wire.Stop, capture: map[string]*regexp.Regexp{},
	}
	for name, expr := range wire.Capture {
		re, err := regexp.Compile(expr)
		if err != nil {
			return fmt.Errorf("field \"capture\", %q: %w", name, err)
		}
		turn.capture[name] = re
	}
	if wire.Delay != "" {
		var err error
		if turn.delay, err = time.ParseDuration(wire.Delay); err != nil {
			return fmt.Errorf("field \"delay\": %q is no duration such as 50ms", wire.Delay)
		}
	}
	last := &s.sections[len(s.sections)-1]
	last.turns = append(last.turns, turn)
	return nil
}

// scriptFault says what is wrong with a line in the words of who wrote it.
func scriptFault(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := map[reflect.Kind]string{
			reflect.String: "a string", reflect.Slice: "a list", reflect.Int64: "a whole number",
			reflect.Map: "an object", reflect.Struct: "an object",
		}[wrong.Type.Kind()]
		value, _, _ := strings.Cut(wrong.Value, " ") // "number 1.5"
		if wrong.Field == "" {
			return fmt.Errorf("a turn is a JSON object such as {\"text\":\"Hello.\"}, and this is of the type %s", value)
		}
		return fmt.Errorf("field %q is of the type %s; want %s", wrong.Field, value, want)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON, at its byte %d: %w", wrong.Offset, err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: the object does not end; write each on one line")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %s; known are for, text, tools (with id, name, input), expect, capture, delay, usage (with input_tokens, output_tokens), stop", name)
	}
	return err
}

// Complete returns the turn that comes next in the conversation.
func (s *Script) Complete(ctx context.Context, req Request) (Response, error) {
	turns := s.turnsFor(req.Messages)
	values, said := map[string]string{}, 0
	for i, m := range req.Messages {
		if m.Role == RoleAssistant {
			if said < len(turns) {
				turns[said].remember(values, resultsBefore(req.Messages, i))
			}
			said++
		}
	}
	if said >= len(turns) {
		return Response{}, scriptError("it has %d turns for this conversation, and turn %d is asked for", len(turns), said+1)
	}
	turn, results := turns[said], resultsBefore(req.Messages, len(req.Messages))
	if err := turn.check(results); err != nil {
		return Response{}, err
	}
	turn.remember(values, results)
	select {
	case <-time.After(turn.delay):
	case <-ctx.Done():
		return Response{}, context.Cause(ctx)
	}
	return turn.say(values, said, req)
}

func (s *Script) turnsFor(messages []Message) []scriptTurn {
	first := ""
	if len(messages) > 0 {
		first = textOf(messages[0].Content)
	}
	for _, section := range s.sections[1:] {
		if section.first.MatchString(first) {
			return section.turns
		}
	}
	return s.sections[0].turns
}

// resultsBefore is what the tools answered just before the message i.
func resultsBefore(messages []Message, i int) string {
	var all []byte
	if i > 0 && messages[i-1].Role == RoleUser {
		for _, b := range messages[i-1].Content {
			if b.Type == TypeToolResult {
				all = append(append(all, b.resultText()...), '\n')
			}
		}
	}
	return string(all)
}

func scriptError(format string, args ...any) *ProviderError {
	return &ProviderError{Code: CodeScript, Message: fmt.Sprintf(format, args...)}
}
