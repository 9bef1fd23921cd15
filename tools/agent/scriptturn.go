package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// check compares the tool results with what the turn expects.
func (t scriptTurn) check(results string) error {
	for _, want := range t.expect {
		if !strings.Contains(results, want) {
			return scriptError("line %d expects %q in the last tool results, which are: %s", t.line, want, tools.Excerpt(results, 2000))
		}
	}
	return nil
}

// remember captures values. A pattern that does not match leaves its name as it
// is; using a name without a value is an error, later.
func (t scriptTurn) remember(values map[string]string, results string) {
	for name, re := range t.capture {
		if m := re.FindStringSubmatch(results); m != nil {
			values[name] = m[0]
			if len(m) > 1 {
				values[name] = m[1]
			}
		}
	}
}

// say makes the turn, the one after said others.
func (t scriptTurn) say(values map[string]string, said int, req Request) (Response, error) {
	res := Response{StopReason: StopEndTurn, Usage: t.usage, Model: "script"}
	text, err := fill(t.text, values)
	if err != nil {
		return Response{}, scriptError("line %d: %v", t.line, err)
	}
	if text != "" {
		res.Content = append(res.Content, Text(text))
	}
	for i, tool := range t.tools {
		input, err := fillInput(tool.Input, values)
		if err != nil {
			return Response{}, scriptError("line %d: input of %s: %v", t.line, tool.Name, err)
		}
		if tool.ID == "" {
			tool.ID = fmt.Sprintf("toolu_%d_%d", said, i)
		}
		res.Content = append(res.Content, ToolUse(tool.ID, tool.Name, input))
		res.StopReason = StopToolUse
	}
	if t.stop != "" {
		res.StopReason = t.stop
	}
	if res.Usage == (Usage{}) {
		res.Usage = Usage{Input: estimate(offload.RuneCounter{}, req), Output: offload.RuneCounter{}.Count(text)}
	}
	return res, nil
}

var (
	placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	number      = regexp.MustCompile(`^\$\{int:([A-Za-z_][A-Za-z0-9_]*)([+-][0-9]+)?\}$`)
)

// fill puts the values into a text.
func fill(text string, values map[string]string) (string, error) {
	var missing error
	filled := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := p[2 : len(p)-1]
		value, ok := values[name]
		if !ok {
			missing = fmt.Errorf("nothing was captured as %q", name)
		}
		return value
	})
	return filled, missing
}

// fillInput puts the values into the strings of an input.
func fillInput(input json.RawMessage, values map[string]string) (json.RawMessage, error) {
	if len(input) == 0 || !bytes.Contains(input, []byte("${")) {
		return input, nil
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	filled, err := fillValue(v, values)
	if err != nil {
		return nil, err
	}
	return encode(filled)
}

func fillValue(v any, values map[string]string) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		if m := number.FindStringSubmatch(v); m != nil {
			return fillNumber(m[1], m[2], values)
		}
		return fill(v, values)
	case []any:
		for i := range v {
			if v[i], err = fillValue(v[i], values); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = fillValue(v[key], values); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func fillNumber(name, offset string, values map[string]string) (any, error) {
	value, ok := values[name]
	if !ok {
		return nil, fmt.Errorf("nothing was captured as %q", name)
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(value, ",", ""), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the value of %q is no number: %q", name, tools.Excerpt(value, 80))
	}
	if offset != "" {
		d, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			return nil, err
		}
		n += d
	}
	return n, nil
}
