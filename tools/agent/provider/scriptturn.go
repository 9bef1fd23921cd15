package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/jsonform"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// checkExpected fails if a text that the turn expects is not in the tool results.
func (t scriptTurn) checkExpected(results string) error {
	for _, want := range t.expect {
		if !strings.Contains(results, want) {
			return scriptError("line %d expects %q in the last tool results, which are: %s", t.line, want, tools.Excerpt(results, 2000))
		}
	}
	return nil
}

// captureVars sets the turn's variables. A pattern that does not match sets none;
// the later use of a variable without a value is an error.
func (t scriptTurn) captureVars(vars map[string]string, results string) {
	for name, re := range t.capture {
		if m := re.FindStringSubmatch(results); m != nil {
			vars[name] = m[0]
			if len(m) > 1 {
				vars[name] = m[1]
			}
		}
	}
}

// response returns the turn with its variables expanded. done is how many turns
// came before it.
func (t scriptTurn) response(vars map[string]string, done int, req agent.Request) (agent.Response, error) {
	res := agent.Response{StopReason: agent.StopEndTurn, Usage: t.usage, Model: "script"}
	text, err := expand(t.text, vars)
	if err != nil {
		return agent.Response{}, scriptError("line %d: %v", t.line, err)
	}
	if text != "" {
		res.Content = append(res.Content, agent.Text(text))
	}
	for i, tool := range t.tools {
		input, err := expandInput(tool.Input, vars)
		if err != nil {
			return agent.Response{}, scriptError("line %d: input of %s: %v", t.line, tool.Name, err)
		}
		id := cmp.Or(tool.ID, fmt.Sprintf("toolu_%d_%d", done, i))
		res.Content = append(res.Content, agent.ToolUse(id, tool.Name, input))
		res.StopReason = agent.StopToolUse
	}
	res.StopReason = cmp.Or(t.stop, res.StopReason)
	count(&res, req)
	return res, nil
}

var (
	textPlaceholder = lazyregexp.New(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
	intPlaceholder  = lazyregexp.New(`^\$\{int:([A-Za-z_][A-Za-z0-9_]*)([+-][0-9]+)?\}$`)
)

// expand replaces the placeholders in a text.
func expand(text string, vars map[string]string) (string, error) {
	var missing error
	expanded := textPlaceholder.ReplaceAllStringFunc(text, func(p string) string {
		name := p[2 : len(p)-1]
		value, ok := vars[name]
		if !ok {
			missing = notCaptured(name)
		}
		return value
	})
	return expanded, missing
}

func notCaptured(name string) error { return fmt.Errorf("no value was captured as %q", name) }

// expandInput replaces the placeholders in all strings of an input.
func expandInput(input json.RawMessage, vars map[string]string) (json.RawMessage, error) {
	if len(input) == 0 || !bytes.Contains(input, []byte("${")) {
		return input, nil
	}
	v, err := jsonform.Decode(input)
	if err != nil {
		return nil, err
	}
	expanded, err := expandValue(v, vars)
	if err != nil {
		return nil, err
	}
	return jsonform.Encode(expanded)
}

func expandValue(v any, vars map[string]string) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		if m := intPlaceholder.FindStringSubmatch(v); m != nil {
			return expandInt(m[1], m[2], vars)
		}
		return expand(v, vars)
	case []any:
		for i := range v {
			if v[i], err = expandValue(v[i], vars); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = expandValue(v[key], vars); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func expandInt(name, offset string, vars map[string]string) (any, error) {
	value, ok := vars[name]
	if !ok {
		return nil, notCaptured(name)
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(value, ",", ""), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the value of %q is not a number: %q", name, tools.Excerpt(value, 80))
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
