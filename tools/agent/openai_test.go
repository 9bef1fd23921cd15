package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/stevedore-bus/stevedore/tools/agent"
)

const openAITurn = `{"id":"chatcmpl-1","object":"chat.completion","model":"m-1","choices":[{"index":0,"finish_reason":"tool_calls",
 "message":{"role":"assistant","content":null,"tool_calls":[
  {"id":"call_a","type":"function","function":{"name":"list_dir","arguments":"{\"path\":\".\"}"}},
  {"id":"","type":"function","function":{"name":"list_dir","arguments":"{\"path\":"}},
  {"id":"call_c","type":"function","function":{"name":"list_dir","arguments":""}}]}}],
 "usage":{"prompt_tokens":20,"completion_tokens":6,"total_tokens":26,"prompt_tokens_details":{"cached_tokens":16}}}`

// Parallel calls, one without an id, one with broken arguments: each keeps its
// place and its words on the way back.
func TestOpenAIRoundTrip(t *testing.T) {
	p := serve(t, "/v1/chat/completions", reply{200, nil, openAITurn})
	model, err := agent.OpenProvider("openai:m-1", agent.ProviderConfig{BaseURL: p.URL + "/v1", APIKey: testKey})
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
	for i, want := range []struct{ id, input string }{{"call_a", `{"path":"."}`}, {"call_1_1", `"{\"path\":"`}, {"call_c", `{}`}} {
		if got := res.Content[i]; got.ID != want.id || string(got.Input) != want.input {
			t.Errorf("call %d: id %q, input %s; want %q, %s", i, got.ID, got.Input, want.id, want.input)
		}
	}
	if auth := p.headers[0].Get("Authorization"); auth != "Bearer "+testKey {
		t.Errorf("authorization %q", auth)
	}

	var image agent.Block
	if err := json.Unmarshal([]byte(`{"type":"tool_result","tool_use_id":"call_c","content":[{"type":"text","text":"a picture"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}`), &image); err != nil {
		t.Fatal(err)
	}
	again := lookAround
	again.Messages = append(again.Messages,
		agent.Message{Role: agent.RoleAssistant, Content: append([]agent.Block{agent.Text("Let me.")}, res.Content...)},
		agent.Message{Role: agent.RoleUser, Content: []agent.Block{
			agent.ToolResult("call_a", "go.mod", false), agent.ToolResult("call_1_1", "not JSON", true), image, agent.Text("Go on."),
		}})
	if _, err := model.Complete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []json.RawMessage
		Tools    []json.RawMessage
	}
	if err := json.Unmarshal([]byte(p.asked()[1]), &sent); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"role":"system","content":"Be brief."}`,
		`{"role":"user","content":"<look> & tell"}`,
		`{"role":"assistant","content":"Let me.","tool_calls":[{"id":"call_a","type":"function","function":{"name":"list_dir","arguments":"{\"path\":\".\"}"}},{"id":"call_1_1","type":"function","function":{"name":"list_dir","arguments":"{\"path\":"}},{"id":"call_c","type":"function","function":{"name":"list_dir","arguments":"{}"}}]}`,
		`{"role":"tool","content":"go.mod","tool_call_id":"call_a"}`,
		`{"role":"tool","content":"The tool failed: not JSON","tool_call_id":"call_1_1"}`,
		`{"role":"tool","content":"a picture","tool_call_id":"call_c"}`,
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

func TestOpenAIStops(t *testing.T) {
	for finish, want := range map[string]agent.StopReason{"stop": agent.StopEndTurn, "length": agent.StopMaxTokens, "content_filter": agent.StopRefusal} {
		p := serve(t, "/chat/completions", reply{200, nil, `{"choices":[{"finish_reason":"` + finish + `","message":{"content":"hi"}}]}`})
		model, err := agent.NewOpenAI("m", agent.ProviderConfig{BaseURL: p.URL})
		if err != nil {
			t.Fatal(err)
		}
		res, err := model.Complete(t.Context(), lookAround)
		if err != nil || res.StopReason != want || res.Content[0].Text != "hi" {
			t.Errorf("finish reason %q: %+v, %v; want %q", finish, res, err, want)
		}
	}
}
