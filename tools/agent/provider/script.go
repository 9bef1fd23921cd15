package provider

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
	"unicode/utf8"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Script is a provider that replays turns from a file, for demos and tests
// without an API key. Each line of the file is a JSON object, which is one turn
// of the assistant (this example breaks the second line in two):
//
//	{"text":"Let me look.", "tools":[{"name":"grep","input":{"pattern":"needle"}}]}
//	{"expect":["needle"], "capture":{"line":"(\\d+): .*needle"},
//	 "tools":[{"name":"get_knowledge_by_lines","input":{"artifact_id":"${id}","start_line":"${int:line-1}","end_line":"${int:line+1}"}}]}
//	{"text":"It is in line ${line}."}
//
// Fields of a turn:
//
//	text     the text of the turn; optional
//	tools    the tool calls of the turn: name, input, and optionally an id
//	expect   texts that must all occur in the last tool results; otherwise the
//	         turn fails with an error that shows the results
//	capture  variable names and regular expressions (RE2); the first group (or the
//	         whole match) in the last tool results becomes the variable's value
//	delay    how long the turn takes, such as "50ms"; its text arrives word by word
//	usage    token counts: {"input_tokens":1,"output_tokens":2}
//	stop     the stop reason, if it is not tool_use or end_turn
//
// ${NAME} in a text, or in a string of an input, becomes the variable's value. A
// string that is exactly ${int:NAME}, ${int:NAME+N} or ${int:NAME-N} becomes a
// number.
//
// A line {"for":"REGEXP"} starts the turns of the conversations whose first
// message matches, such as those of sub-agents. Turns before the first such line
// are for all other conversations.
//
// The first turn below {"for":"^\\[summary\\]$"} is the answer to each request for a
// summary of a long conversation. Without it, the agent uses an extract.
//
// A Script keeps no state: the next turn and all variables follow from the
// request. So another process can continue a conversation.
type Script struct {
	sections []section
}

type section struct {
	first *regexp.Regexp // matches the conversation's first text; nil matches all
	turns []scriptTurn
}

type scriptTurn struct {
	line    int
	text    string
	tools   []scriptTool
	expect  []string
	capture map[string]*regexp.Regexp
	delay   time.Duration
	usage   agent.Usage
	stop    agent.StopReason
}

type scriptTool struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// summaryRequest is the first text of a request for a summary.
const summaryRequest = "[summary]"

// loadScript reads a script from a file.
func loadScript(name string) (*Script, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	s, err := ParseScript(data)
	if err != nil {
		return nil, fmt.Errorf("load script %q: %w", name, err)
	}
	return s, nil
}

// ParseScript reads a script. Unknown fields are errors, because most of them are
// typos.
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
		Usage   agent.Usage       `json:"usage"`
		Stop    agent.StopReason  `json:"stop"`
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&wire); err != nil {
		return explainDecodeError(err)
	}
	if dec.More() {
		return errors.New("text follows the first object; write one object per line")
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
			return fmt.Errorf("field \"delay\": %q is not a duration such as 50ms", wire.Delay)
		}
	}
	last := &s.sections[len(s.sections)-1]
	last.turns = append(last.turns, turn)
	return nil
}

// explainDecodeError describes the error of a line without Go's names for types.
func explainDecodeError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := map[reflect.Kind]string{
			reflect.String: "a string", reflect.Slice: "a list", reflect.Int64: "a whole number",
			reflect.Map: "an object", reflect.Struct: "an object",
		}[wrong.Type.Kind()]
		value, _, _ := strings.Cut(wrong.Value, " ") // "number 1.5"
		if wrong.Field == "" {
			return fmt.Errorf("want a JSON object such as {\"text\":\"Hello.\"}, got the type %s", value)
		}
		return fmt.Errorf("field %q: want %s, got the type %s", wrong.Field, want, value)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON, at byte %d: %w", wrong.Offset, err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: the object does not end; write each object on one line")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %s; known are for, text, tools (with id, name, input), expect, capture, delay, usage (with "+
			"input_tokens, output_tokens), stop", name)
	}
	return err
}

// Complete returns the next turn of the conversation.
func (s *Script) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	turns := s.turnsFor(req)
	vars, done := map[string]string{}, req.ReplacedTurns
	for i, m := range req.Messages {
		if m.Role == agent.RoleAssistant {
			if done < len(turns) {
				turns[done].captureVars(vars, resultsBefore(req.Messages, i))
			}
			done++
		}
	}
	if done >= len(turns) {
		return agent.Response{}, scriptError("it has %d turns for this conversation, but the agent requested turn %d", len(turns), done+1)
	}
	turn, results := turns[done], resultsBefore(req.Messages, len(req.Messages))
	if err := turn.checkExpected(results); err != nil {
		return agent.Response{}, err
	}
	turn.captureVars(vars, results)
	res, err := turn.response(vars, done, req)
	if err != nil {
		return agent.Response{}, err
	}
	return res, stream(ctx, req, agent.TextOf(res.Content), turn.delay)
}

// stream reports a text word by word over a duration, as a model would write it.
func stream(ctx context.Context, req agent.Request, text string, duration time.Duration) error {
	words := strings.SplitAfter(text, " ")
	offset := 0
	for _, word := range words {
		if tools.Sleep(ctx, duration/time.Duration(len(words))) != nil {
			return context.Cause(ctx)
		}
		if req.OnText != nil && word != "" {
			req.OnText(offset, word)
		}
		offset += utf8.RuneCountInString(word)
	}
	return nil
}

func (s *Script) turnsFor(req agent.Request) []scriptTurn {
	first := ""
	switch {
	case req.Summary:
		first = summaryRequest
	case len(req.Messages) > 0:
		first = agent.TextOf(req.Messages[0].Content)
	}
	for _, section := range s.sections[1:] {
		if section.first.MatchString(first) {
			return section.turns
		}
	}
	if req.Summary {
		return nil // the other turns are no summaries
	}
	return s.sections[0].turns
}

// resultsBefore returns the tool results in the message before message i.
func resultsBefore(messages []agent.Message, i int) string {
	var all []byte
	if i > 0 && messages[i-1].Role == agent.RoleUser {
		for _, b := range messages[i-1].Content {
			if b.Type == agent.TypeToolResult {
				all = append(append(all, b.ResultText()...), '\n')
			}
		}
	}
	return string(all)
}

func scriptError(format string, args ...any) *agent.ProviderError {
	return &agent.ProviderError{Code: agent.CodeScript, Message: fmt.Sprintf(format, args...)}
}
