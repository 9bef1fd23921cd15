package agent_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// jsonOf returns a value as JSON.
func jsonOf(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// disturbed is a model whose session gets a notice while it answers.
type disturbed struct {
	agent.Provider
	during func()
}

func (d disturbed) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	res, err := d.Provider.Complete(ctx, req)
	d.during()
	return res, err
}

// The log has each request to the model exactly as the model got it: also after results and turns left
// the history, with the system prompt and the tools of the worker that asked. A notice that came
// while the model answered is counted.
func TestTurnsAreWhatTheModelGot(t *testing.T) {
	slow.Test(t)
	s := newStage(t, newTool(t, "say", tools.Once, func(_ context.Context, _ tools.Call, in sayArgs) *tools.Result {
		return tools.NewToolResult(fmt.Sprintf("fact %d %s", in.N, strings.Repeat("blah ", 400)))
	}))
	var lines []string
	for i := range 60 {
		args := fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat("long ", 3000*(i%9/8)))
		lines = append(lines, asks("say", args), fmt.Sprintf(`{"text":"reply %d %s"}`, i, strings.Repeat("blah ", 200)))
	}
	lines = append(lines, `{"for":"^\\[summary\\]$"}`, `{"text":"They tell each other facts."}`)
	model := &recorder{Provider: parseScript(t, lines...)}
	notices := 0
	for i := range 60 {
		cfg := agent.Config{ContextTokens: 14_000, System: fmt.Sprint("You are the system ", i/20)}
		p := disturbed{model, func() {
			if i == 30 {
				notices++
				if err := agent.AddNotice(t.Context(), &s.log, "s", agent.Notice{ID: fmt.Sprint("n", notices), Title: "A reminder", Text: "Tea!"}); err != nil {
					t.Error(err)
				}
			}
		}}
		if o := run(t, s.agent(p, cfg), "s", fmt.Sprint("run", i), fmt.Sprintf("message %d", i)); o.Reason != agent.Done {
			t.Fatalf("message %d: %+v", i, o)
		}
	}
	entries := s.entries(t, "s")
	kinds, setups := map[agent.Kind]int{}, 0
	for _, e := range entries {
		kinds[e.Kind]++
		if e.Setup != nil {
			setups++
		}
	}
	if kinds[agent.KindOffloaded] == 0 || kinds[agent.KindCompacted] == 0 || setups != 3 {
		t.Fatalf("the log has %v and %d setups, want 3", kinds, setups)
	}
	n := 0
	for _, req := range model.requests {
		if req.Summary {
			continue
		}
		run := fmt.Sprint("run", n/2)
		got, ok, err := agent.TurnOf(entries, run, n%2+1)
		if err != nil || !ok {
			t.Fatalf("turn %d of %s: %v %v", n%2+1, run, ok, err)
		}
		n++
		if got.Late > 0 {
			if last := got.Messages[len(got.Messages)-1].Content; run != "run30" || got.Late != 1 || !strings.Contains(last[len(last)-1].Text, "Tea!") {
				t.Errorf("%s has late notices: %d", run, got.Late)
			}
			continue
		}
		if jsonOf(t, got.Messages) != jsonOf(t, req.Messages) || got.Setup == nil || got.Setup.System != req.System || got.Setup.MaxTokens != agent.DefaultMaxTokens {
			t.Fatalf("turn %d of %s is %s, but the model got %s", n%2, run, jsonOf(t, got), jsonOf(t, req.Messages))
		}
		for i, def := range req.Tools {
			if tool := got.Setup.Tools[i]; tool.Name != def.Name || tool.Description != def.Description || string(tool.InputSchema) != jsonOf(t, def.Parameters) {
				t.Fatalf("tool %d is %+v, want %+v", i, tool, def)
			}
		}
	}
	if n != 120 {
		t.Errorf("%d requests for turns", n)
	}
	for _, name := range []string{"run0", "nobody"} {
		if _, ok, err := agent.TurnOf(entries, name, 3); ok || err != nil {
			t.Errorf("a turn that %s does not have: %v %v", name, ok, err)
		}
	}
}

// A setup that is too large for the log is left out, and the log says so; one that nobody can read is an
// error.
func TestSetupsThatCannotBeStored(t *testing.T) {
	noise := make([]byte, 60_000)
	for i := range noise {
		noise[i] = byte(' ' + rand.IntN(90))
	}
	forgeries := []string{"no gzip", bomb(t)}
	for name, c := range map[string]struct {
		log    agent.Conversations
		system string
		left   bool
	}{
		"small":           {&memConversations{}, "be brief", false},
		"compressible":    {&memConversations{}, strings.Repeat("be brief ", 100_000), false},
		"large":           {&memConversations{}, string(noise), true},
		"large when read": {&memConversations{}, strings.Repeat("be brief ", 500_000), true},
		"a small log":     {&smallLog{}, string(noise[:2000]), true},
	} {
		a := agent.New(turns{{agent.Text("hi")}}, nil, c.log, agent.Config{System: c.system})
		if o := run(t, a, "s", "r", "go"); o.Reply != "hi" {
			t.Errorf("%s: %+v", name, o)
		}
		bodies, _, err := c.log.Read(t.Context(), "s", 0)
		if err != nil {
			t.Fatal(err)
		}
		entries, _ := agent.DecodeEntries(bodies)
		got, ok, err := agent.TurnOf(entries, "r", 1)
		if err != nil || !ok || got.Setup == nil || got.Setup.TooLarge != c.left || (got.Setup.System == c.system) == c.left || len(bodies[0]) > 70_000 {
			t.Errorf("%s: the log has %.200s with %d bytes: %v %v", name, jsonOf(t, got.Setup), len(bodies[0]), ok, err)
		}
		for _, forged := range forgeries {
			entries[0].Setup = []byte(forged)
			if got, ok, err := agent.TurnOf(entries, "r", 1); err == nil || !ok {
				t.Errorf("a forged setup: %+v", got.Setup)
			}
		}
		entries[0].Setup = nil
		if got, ok, err := agent.TurnOf(entries, "r", 1); err != nil || !ok || got.Setup != nil {
			t.Errorf("a log of an earlier version: %+v %v", got.Setup, err)
		}
	}
}

// bomb is 128 MB in a small text.
func bomb(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for range 8 {
		if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<24)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.String()
}

// Providers reject each request that has a tool with conditions at the top of its schema, as some MCP servers have them.
func TestSchemasThatProvidersReject(t *testing.T) {
	for _, row := range []struct{ schema, want, conditions string }{
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"]}`, "", ""},
		{`{}`, `{"type":"object"}`, ""},
		{`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}`,
			`{"anyOf":[{"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`},
		{`{"type":"object","$defs":{"A":{"properties":{"x":{"type":"string"}},"allOf":[{"$ref":"#/$defs/A"}]}},"oneOf":[{"$ref":"#/$defs/A"}]}`,
			`{"$defs":{"A":{"allOf":[{"$ref":"#/$defs/A"}],"properties":{"x":{"type":"string"}}}},"type":"object","properties":{"x":{"type":"string"}}}`,
			`{"oneOf":[{"$ref":"#/$defs/A"}]}`},
	} {
		def := tools.Definition{Name: "t", Description: "Does it.", Parameters: new(jsonschema.Schema)}
		if err := json.Unmarshal([]byte(row.schema), def.Parameters); err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(def.Parameters)
		list, err := agent.SetupTools([]tools.Definition{def})
		if err != nil {
			t.Fatal(err)
		}
		description := "Does it."
		if row.conditions != "" {
			description += "\nThe arguments also match the JSON Schema " + row.conditions
		}
		var got, want any
		_ = json.Unmarshal(list[0].InputSchema, &got)
		_ = json.Unmarshal([]byte(cmp.Or(row.want, row.schema)), &want)
		if !reflect.DeepEqual(got, want) || list[0].Description != description {
			t.Errorf("%s: the model gets %q, %s", row.schema, list[0].Description, list[0].InputSchema)
		}
		if after, _ := json.Marshal(def.Parameters); string(after) != string(before) {
			t.Errorf("the tool has changed: %s", after)
		}
	}
}
