package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var generated = sync.OnceValue(func() []result { return generate(seed) })

// fakeModel answers each request with a search for the question's pattern, and then with
// what the search found. It records the tools that it was offered.
type fakeModel struct {
	t     *testing.T
	wire  string // anthropic or openai
	asked int
}

func (f *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	f.asked++
	path := map[string]string{"anthropic": "/v1/messages", "openai": "/v1/chat/completions"}[f.wire]
	if r.URL.Path != path || !strings.Contains(fmt.Sprint(r.Header), "secret-key") {
		f.t.Errorf("request to %s, %v", r.URL.Path, r.Header)
	}
	var q question
	for _, result := range generated() {
		for _, each := range result.questions {
			encoded, err := json.Marshal("Question: " + each.text)
			if err != nil {
				f.t.Fatal(err)
			}
			if bytes.Contains(body, encoded[1:len(encoded)-1]) {
				q = each
			}
		}
	}
	tool, args := "grep_knowledge", map[string]any{"pattern": q.pattern, "context_after": q.after}
	if id := regexp.MustCompile(`artifact '(call_\d+)'`).FindSubmatch(body); id != nil {
		args["artifact_id"] = string(id[1])
	}
	if bytes.Contains(body, []byte(`"name":"grep"`)) {
		tool, args = "grep", map[string]any{"pattern": q.pattern, "count": q.counts, "after": q.after}
	}
	text := "unknown"
	done := !bytes.Contains(body, []byte(`"name":"grep`))
	if bytes.Contains(body, []byte("use_1")) {
		text, done = q.answer, true // a real model reads it in the result
		if !bytes.Contains(body, []byte(q.answer)) {
			text = "unknown"
		}
	}
	input, err := json.Marshal(args)
	if err != nil {
		f.t.Error(err)
	}
	var res any
	switch {
	case f.wire == "anthropic" && done:
		res = map[string]any{"type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "usage": map[string]int{"input_tokens": 7, "output_tokens": 1}, "content": []any{map[string]any{"type": "text", "text": text}}}
	case f.wire == "anthropic":
		res = map[string]any{"type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use", "usage": map[string]int{"input_tokens": 7, "output_tokens": 1}, "content": []any{map[string]any{"type": "tool_use", "id": "use_1", "name": tool, "input": json.RawMessage(input)}}}
	case done:
		res = map[string]any{"model": "m", "choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}}}
	default:
		res = map[string]any{"model": "m", "choices": []any{map[string]any{"finish_reason": "tool_calls", "message": map[string]any{"role": "assistant", "content": nil,
			"tool_calls": []any{map[string]any{"id": "use_1", "type": "function", "function": map[string]any{"name": tool, "arguments": string(input)}}}}}}}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(res); err != nil {
		f.t.Error(err)
	}
}

// A real model is asked over both wire formats, with offloading and the alternatives.
func TestModel(t *testing.T) {
	offloaded, registry, err := offloadAll()
	if err != nil {
		t.Fatal(err)
	}
	for wire, suffix := range map[string]string{"anthropic": "", "openai": "/v1"} {
		t.Run(wire, func(t *testing.T) {
			fake := &fakeModel{t: t, wire: wire}
			server := httptest.NewServer(fake)
			defer server.Close()
			kind := strings.ToUpper(wire)
			env := map[string]string{kind + "_API_KEY": "secret-key", kind + "_BASE_URL": server.URL + suffix, "EVAL_QUESTIONS": "1"}
			settings, err := modelFrom(func(name string) string { return env[name] })
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := askRealModel(&out, settings, offloaded, registry, false); err != nil {
				t.Fatal(err)
			}
			for name, least := range map[string]string{"offloaded": `1[45]`, "file and grep": `\d+`, "pasted whole": `0`, "truncated to 25,000 tokens": `0`} {
				if !regexp.MustCompile(wire + `:\S+, ` + name + ` +` + least + ` of 15 `).MatchString(out.String()) {
					t.Errorf("no line for %s in\n%s", name, out.String())
				}
			}
			if fake.asked < 15*4 {
				t.Errorf("the model got %d requests", fake.asked)
			}
		})
	}
}

func TestModelSettings(t *testing.T) {
	for _, row := range []struct {
		env        map[string]string
		spec, want string
	}{
		{nil, "", ""},
		{map[string]string{"OPENAI_API_KEY": "k"}, "openai:gpt-5-mini", ""},
		{map[string]string{"OPENAI_API_KEY": "k", "EVAL_MODEL": "openai:x"}, "openai:x", ""},
		{map[string]string{"OPENAI_API_KEY": "k", "EVAL_MODEL": "anthropic:x"}, "", "ANTHROPIC_API_KEY is not set"},
		{map[string]string{"OPENAI_API_KEY": "k", "EVAL_QUESTIONS": "9"}, "", "want 1 to 4"},
	} {
		s, err := modelFrom(func(name string) string { return row.env[name] })
		if s.spec != row.spec || (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v: %q, %v", row.env, s.spec, err)
		}
	}
}
