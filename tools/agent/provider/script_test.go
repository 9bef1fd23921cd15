package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

func parseScript(t *testing.T, lines ...string) *provider.Script {
	t.Helper()
	s, err := provider.ParseScript([]byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func user(blocks ...agent.Block) agent.Message {
	return agent.Message{Role: agent.RoleUser, Content: blocks}
}

// A script continues a conversation from the request alone: each turn parses the
// script again, as another process would.
func TestScriptKeepsNoState(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{"text":"Searching.","tools":[{"name":"grep","input":{"pattern":"needle"}}]}`,
		`{"expect":["Found 1"],"capture":{"line":"(?m)^(\\d+): ","id":"knowledge#(\\S+)"},"tools":[{"name":"lines","input":{"artifact_id":"${id}","start_line":"${int:line-1}","end_line":"${int:line+1}","n":1e400}}]}`,
		`{"capture":{"word":"needle (\\w+)"},"text":"Line ${line}: ${word}"}`,
		`{"for":"^you are a child"}`,
		`{"text":"child"}`,
	}
	messages := []agent.Message{user(agent.Text("Find it."))}
	answers := []string{"Found 1 match(es) in knowledge#toolu_1 (1,000 total lines)\n\n412: a needle\n", "411: x\n412: needle gold\n"}
	var said []string
	for turn := range 3 {
		res, err := parseScript(t, lines...).Complete(t.Context(), agent.Request{Messages: messages})
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, agent.Message{Role: agent.RoleAssistant, Content: res.Content})
		for _, b := range res.Content {
			said = append(said, b.Text+string(b.Input))
			if b.Type == agent.TypeToolUse {
				messages = append(messages, user(agent.ToolResult(b.ID, answers[turn], false)))
			}
		}
	}
	want := []string{"Searching.", `{"pattern":"needle"}`, `{"artifact_id":"toolu_1","end_line":413,"n":1e400,"start_line":411}`, "Line 412: gold"}
	if strings.Join(said, "|") != strings.Join(want, "|") {
		t.Errorf("said %q, want %q", said, want)
	}
	res, err := parseScript(t, lines...).Complete(t.Context(), agent.Request{Messages: []agent.Message{user(agent.Text("you are a child of it"))}})
	if err != nil || res.Content[0].Text != "child" {
		t.Errorf("the other conversation: %+v, %v", res, err)
	}
}

func TestScriptErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		result string
		want   string
	}{
		"no turn":        {``, "", "the agent requested turn 1"},
		"unexpected":     {`{"expect":["gold"]}`, "only sand", `expects "gold"`},
		"not captured":   {`{"text":"${nothing}"}`, "", `no value was captured as "nothing"`},
		"not a number":   {`{"capture":{"x":"s\\w+"},"tools":[{"name":"t","input":{"n":"${int:x}"}}]}`, "sand", "is not a number"},
		"number missing": {`{"tools":[{"name":"t","input":{"a":["${int:x}"]}}]}`, "sand", "no value was captured"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseScript(t, c.script).Complete(t.Context(), agent.Request{Messages: []agent.Message{user(agent.ToolResult("a", c.result, false))}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	for line, want := range map[string]string{
		`{"txt":"typo"}`:                 `line 2: unknown field "txt"; known are for, text, `,
		`{"text":5}`:                     `line 2: field "text": want a string, got the type number`,
		`{"tools":{"name":"t"}}`:         `line 2: field "tools": want a list, got the type object`,
		`{"tools":[{"name":true}]}`:      `line 2: field "tools.name": want a string, got the type bool`,
		`{"usage":{"input_tokens":1.5}}`: `line 2: field "usage.input_tokens": want a whole number, got the type number`,
		`{"capture":["a"]}`:              `line 2: field "capture": want an object, got the type array`,
		`{"capture":{"a":"("}}`:          `line 2: field "capture", "a": error parsing regexp`,
		`{"for":"("}`:                    `line 2: field "for": error parsing regexp`,
		`{"delay":"soon"}`:               `line 2: field "delay": "soon" is not a duration such as 50ms`,
		`["a"]`:                          `line 2: want a JSON object such as {"text":"Hello."}, got the type array`,
		`{"text":'a'}`:                   `line 2: not JSON, at byte 9: `,
		`{"text":"a"`:                    `line 2: not JSON: the object does not end`,
		`{"text":"a"} {"text":"b"}`:      `line 2: text follows the first object`,
	} {
		_, err := provider.ParseScript([]byte("{}\n" + line))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("ParseScript(%s): error %v, want %q", line, err, want)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add([]byte(`{"text":"${a}","capture":{"a":"b(.)"},"tools":[{"name":"t","input":{"n":"${int:a+1}"}}]}`))
	f.Add([]byte(`{"for":"x"}` + "\n" + `{"expect":[""]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "delay") {
			return
		}
		s, err := provider.ParseScript(data)
		if err != nil {
			return
		}
		for _, text := range []string{"", "ab1", "12"} {
			// It must not panic.
			_, _ = s.Complete(t.Context(), agent.Request{Messages: []agent.Message{user(agent.Text(text), agent.ToolResult("a", text, false))}})
		}
	})
}

// A model with a price says what a turn cost.
func TestPrice(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script.jsonl")
	if err := os.WriteFile(file, []byte(`{"text":"Hello.","usage":{"input_tokens":3000000,"output_tokens":1000000,"cached_input_tokens":1000000}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for price, want := range map[provider.Price]float64{{}: 0, {Input: 2, Output: 10, CachedInput: 1}: 2*2 + 10 + 1} {
		model, err := provider.Open("script:"+file, provider.Config{Price: price})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := model.Complete(t.Context(), agent.Request{}); err != nil || res.Usage.Cost != want {
			t.Errorf("at the price %+v: %+v, %v, want %v", price, res.Usage, err, want)
		}
	}
}
