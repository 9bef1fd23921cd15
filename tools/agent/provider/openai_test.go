package provider_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

const openAITurn = `{"id":"chatcmpl-1","object":"chat.completion","model":"m-1","choices":[{"index":0,"finish_reason":"tool_calls",
 "message":{"role":"assistant","content":null,"tool_calls":[
  {"id":"call_a","type":"function","function":{"name":"list_dir","arguments":"{\"path\":\".\"}"}},
  {"id":"call_b","type":"function","function":{"name":"list_dir","arguments":"{\"path\":"}},
  {"id":"call_c","type":"function","function":{"name":"list_dir","arguments":""}}]}}],
 "usage":{"prompt_tokens":20,"completion_tokens":6,"total_tokens":26,"prompt_tokens_details":{"cached_tokens":16}}}`

// Parallel calls, one with invalid arguments, keep their order and their arguments
// when they are sent back.
func TestOpenAIRoundTrip(t *testing.T) {
	t.Parallel()
	p := serve(t, "/v1/chat/completions", reply{200, nil, openAITurn})
	model, err := provider.Open("openai:m-1", provider.Config{BaseURL: p.URL + "/v1", APIKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	res, err := model.Complete(t.Context(), lookAround)
	if err != nil {
		t.Fatal(err)
	}
	if res.StopReason != agent.StopToolUse || res.Usage != (agent.Usage{Input: 20, Output: 6, CachedInput: 16}) || len(res.Content) != 3 {
		t.Fatalf("response %+v", res)
	}
	for i, want := range []struct{ id, input string }{{"call_a", `{"path":"."}`}, {"call_b", `"{\"path\":"`}, {"call_c", `{}`}} {
		if got := res.Content[i]; got.ID != want.id || string(got.Input) != want.input {
			t.Errorf("call %d: id %q, input %s; want %q, %s", i, got.ID, got.Input, want.id, want.input)
		}
	}
	if auth := p.headers[0].Get("Authorization"); auth != "Bearer "+testKey {
		t.Errorf("authorization %q", auth)
	}

	var image agent.Block
	if err := json.Unmarshal([]byte(`{"type":"tool_result","tool_use_id":"call_c","content":[{"type":"text","text":"a picture"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}},{"type":"document","source":{}}]}`), &image); err != nil {
		t.Fatal(err)
	}
	again := lookAround
	again.Messages = append(again.Messages,
		agent.Message{Role: agent.RoleAssistant, Content: append([]agent.Block{agent.Text("Let me.")}, res.Content...)},
		agent.Message{Role: agent.RoleUser, Content: []agent.Block{
			agent.ToolResult("call_a", "go.mod", false), agent.ToolResult("call_b", "not JSON", true), image, agent.Text("Go on."),
		}})
	if _, err := model.Complete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []json.RawMessage
		Tools    []json.RawMessage
	}
	if err := json.Unmarshal([]byte(p.received()[1]), &sent); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"role":"system","content":"Be brief."}`,
		`{"role":"user","content":"<look> & tell"}`,
		`{"role":"assistant","content":"Let me.","tool_calls":[{"id":"call_a","type":"function","function":{"name":"list_dir","arguments":"{\"path\":\".\"}"}},{"id":"call_b","type":"function","function":{"name":"list_dir","arguments":"\"{\\\"path\\\":\""}},{"id":"call_c","type":"function","function":{"name":"list_dir","arguments":"{}"}}]}`,
		`{"role":"tool","content":"go.mod","tool_call_id":"call_a"}`,
		`{"role":"tool","content":"The tool failed: not JSON","tool_call_id":"call_b"}`,
		`{"role":"tool","content":"a picture\n[A part of the result is not shown, because this API takes none of the type document]","tool_call_id":"call_c"}`,
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"text","text":"Go on."}]}`,
	}
	if len(sent.Messages) != len(want) {
		t.Fatalf("%d messages, want %d: %s", len(sent.Messages), len(want), sent.Messages)
	}
	for i := range want {
		if string(sent.Messages[i]) != want[i] {
			t.Errorf("message %d\n got %s\nwant %s", i, sent.Messages[i], want[i])
		}
	}
	if want := `{"type":"function","function":{"name":"list_dir","description":"lists","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}`; string(sent.Tools[0]) != want {
		t.Errorf("tool %s, want %s", sent.Tools[0], want)
	}
}

// Unusual responses, and errors in responses with status 200.
func TestOpenAIResponses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, text, code string }{
		"parts":            {`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"one"},{"type":"text","text":"two"}]}}]}`, "one\ntwo", ""},
		"other indexes":    {`{"choices":[{"index":1,"message":{"content":"hi"}},{"message":{"content":"another"}}]}`, "hi", ""},
		"no content":       {`{"choices":[{"message":{"content":null}}]}`, "", ""},
		"an error":         {`{"error":{"message":"the backend died","code":401}}`, "the backend died", agent.CodeBadKey},
		"in the choice":    {`{"choices":[{"finish_reason":"error","error":{"message":"too long","code":"context_length_exceeded"},"message":{"content":""}}]}`, "too long", agent.CodeContextOverflow},
		"not of this form": {`{"error":"it broke"}`, "it broke", agent.CodeBadRequest},
		"no error":         {`{"error":null,"choices":[{"error":null,"message":{"content":"hi"}}]}`, "hi", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := serve(t, "/chat/completions", reply{200, nil, c.body})
			model, err := provider.NewOpenAI("m", provider.Config{BaseURL: p.URL})
			if err != nil {
				t.Fatal(err)
			}
			res, err := model.Complete(t.Context(), lookAround)
			if c.code != "" {
				failure, ok := errors.AsType[*agent.ProviderError](err)
				if !ok || failure.Code != c.code || !strings.Contains(failure.Message, c.text) || len(p.received()) != 1 {
					t.Errorf("error %v after %d requests, want %s with %q after 1", err, len(p.received()), c.code, c.text)
				}
				return
			}
			var got strings.Builder
			for _, b := range res.Content {
				got.WriteString(b.Text)
			}
			if err != nil || got.String() != c.text {
				t.Errorf("got %q, %v; want %q", got.String(), err, c.text)
			}
		})
	}
}

// A user message of texts only is sent as one string, because some servers accept no
// parts.
func TestOpenAIUserText(t *testing.T) {
	t.Parallel()
	p := serve(t, "/chat/completions", reply{200, nil, `{"choices":[{"message":{"content":"hi"}}]}`})
	model, err := provider.NewOpenAI("m", provider.Config{BaseURL: p.URL})
	if err != nil {
		t.Fatal(err)
	}
	req := agent.Request{Messages: []agent.Message{{Role: agent.RoleUser, Content: []agent.Block{agent.Text("one"), agent.Text("two")}}}}
	if _, err := model.Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if want := `{"role":"user","content":"one\n\ntwo"}`; !strings.Contains(p.received()[0], want) {
		t.Errorf("sent %s, want %s in it", p.received()[0], want)
	}
}

// A turn that ends because the provider failed is not an answer, whether it is streamed or not.
func TestOpenAIStops(t *testing.T) {
	t.Parallel()
	for finish, want := range map[string]agent.StopReason{"stop": agent.StopEndTurn, "length": agent.StopMaxTokens, "content_filter": agent.StopRefusal, "MAX_TOKENS": agent.StopMaxTokens} {
		p := serve(t, "/chat/completions", reply{200, nil, `{"choices":[{"finish_reason":"` + finish + `","message":{"content":"hi"}}]}`})
		model, err := provider.NewOpenAI("m", provider.Config{BaseURL: p.URL})
		if err != nil {
			t.Fatal(err)
		}
		res, err := model.Complete(t.Context(), lookAround)
		if err != nil || res.StopReason != want || res.Content[0].Text != "hi" {
			t.Errorf("finish reason %q: %+v, %v; want %q", finish, res, err, want)
		}
	}
	probe := lookAround
	probe.Probe = true // which is not repeated
	for _, finish := range []string{"error", "insufficient_system_resource"} {
		choice := `{"choices":[{"finish_reason":"` + finish + `","PART":{"content":"hi"}}]}`
		for part, form := range map[string]func(...string) string{"message": func(body ...string) string { return body[0] }, "delta": openAIEvents} {
			p := serve(t, "/chat/completions", reply{200, nil, form(strings.Replace(choice, "PART", part, 1))})
			model, err := provider.NewOpenAI("m", provider.Config{BaseURL: p.URL})
			if err != nil {
				t.Fatal(err)
			}
			res, err := model.Complete(t.Context(), probe)
			if failure, ok := errors.AsType[*agent.ProviderError](err); !ok || failure.Code != agent.CodeOverloaded || !failure.Retryable {
				t.Errorf("finish reason %q in a %s: %+v, %v", finish, part, res, err)
			}
		}
	}
}
