package provider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

const testKey = "sk-test-0123456789"

// reply is one HTTP response of a fake provider.
type reply struct {
	status int
	header map[string]string
	body   string
}

// server is a local provider. It sends one reply after the other and repeats the
// last one.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	replies  []reply
	requests []string
	headers  []http.Header
}

func serve(t *testing.T, path string, replies ...reply) *server {
	t.Helper()
	p := &server{replies: replies}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != path || r.Method != http.MethodPost {
			http.Error(w, "unexpected "+r.Method+" "+r.URL.Path, http.StatusNotFound)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests, p.headers = append(p.requests, string(body)), append(p.headers, r.Header)
		answer := p.replies[min(len(p.requests), len(p.replies))-1]
		w.Header().Set("Content-Type", "application/json")
		for k, v := range answer.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(answer.status)
		fmt.Fprint(w, answer.body)
	}))
	t.Cleanup(p.Close)
	return p
}

// received returns the requests so far.
func (p *server) received() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

var lookAround = agent.Request{
	System: "Be brief.",
	Messages: []agent.Message{
		{Role: agent.RoleUser, Content: []agent.Block{agent.Text("<look> & tell")}},
	},
	Tools: []tools.Definition{{
		Name: "list_dir", Description: "lists",
		Parameters: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"path": {Type: "string"}}},
	}},
	MaxTokens: 100,
}

const anthropicTurn = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test","content":[
 {"type":"thinking","thinking":"hm & <hm>","signature":"c2ln+/=="},
 {"type":"text","text":"Looking.","citations":null},
 {"type":"tool_use","id":"toolu_a","name":"list_dir","input":{"path":".","big":12345678901234567890}},
 {"type":"tool_use","id":"toolu_b","name":"list_dir","input":{}}],
 "stop_reason":"tool_use","stop_sequence":null,
 "usage":{"input_tokens":10,"output_tokens":5,"cache_read_input_tokens":100,"cache_creation_input_tokens":7}}`

// The model gets its blocks back unchanged: thinking with its signature, unknown
// fields, and numbers that no float64 can represent.
func TestAnthropicRoundTrip(t *testing.T) {
	t.Parallel()
	p := serve(t, "/v1/messages", reply{200, nil, anthropicTurn})
	model, err := provider.NewAnthropic("claude-test", provider.Config{BaseURL: p.URL, APIKey: testKey})
	if err != nil {
		t.Fatal(err)
	}
	res, err := model.Complete(t.Context(), lookAround)
	if err != nil {
		t.Fatal(err)
	}
	if res.StopReason != agent.StopToolUse || res.Usage != (agent.Usage{Input: 117, Output: 5, CachedInput: 100}) || res.Model != "claude-test" || len(res.Content) != 4 {
		t.Errorf("response %+v", res)
	}
	if use := res.Content[2]; use.ID != "toolu_a" || use.Name != "list_dir" || string(use.Input) != `{"path":".","big":12345678901234567890}` {
		t.Errorf("tool use %+v", use)
	}
	if key := p.headers[0].Get("X-Api-Key"); key != testKey {
		t.Errorf("key %q", key)
	}
	if v := p.headers[0].Get("Anthropic-Version"); v != "2023-06-01" {
		t.Errorf("anthropic-version %q", v)
	}
	if name := p.headers[0].Get("User-Agent"); name != "stevedore" {
		t.Errorf("user agent %q", name)
	}
	if kind := p.headers[0].Get("Content-Type"); kind != "application/json" {
		t.Errorf("content type %q", kind)
	}

	again := lookAround
	again.Messages = append(again.Messages,
		agent.Message{Role: agent.RoleAssistant, Content: res.Content},
		agent.Message{Role: agent.RoleUser, Content: []agent.Block{
			agent.ToolResult("toolu_a", "go.mod\n", false), agent.ToolResult("toolu_b", "no such <dir>", true),
		}})
	if _, err := model.Complete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		System    []map[string]any
		Messages  []struct {
			Role    string
			Content []json.RawMessage
		}
		Tools []struct {
			Name        string
			InputSchema map[string]any `json:"input_schema"`
		}
	}
	if err := json.Unmarshal([]byte(p.received()[1]), &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Model != "claude-test" || sent.MaxTokens != 100 || sent.Tools[0].InputSchema["type"] != "object" || sent.System[0]["text"] != "Be brief." {
		t.Errorf("request %s", p.received()[1])
	}
	want := []string{
		`{"type":"thinking","thinking":"hm & <hm>","signature":"c2ln+/=="}`,
		`{"type":"text","text":"Looking.","citations":null}`,
		`{"type":"tool_use","id":"toolu_a","name":"list_dir","input":{"path":".","big":12345678901234567890}}`,
		`{"type":"tool_use","id":"toolu_b","name":"list_dir","input":{}}`,
	}
	for i, block := range sent.Messages[1].Content {
		if string(block) != want[i] {
			t.Errorf("block %d was sent as %s, want %s", i, block, want[i])
		}
	}
	for i, want := range []string{
		`{"type":"tool_result","tool_use_id":"toolu_a","content":"go.mod\n"}`,
		`{"cache_control":{"type":"ephemeral"},"content":"no such <dir>","is_error":true,"tool_use_id":"toolu_b","type":"tool_result"}`,
	} {
		if got := string(sent.Messages[2].Content[i]); got != want {
			t.Errorf("result %d was sent as %s, want %s", i, got, want)
		}
	}
}

// Each error of the API has a code, and none of them contains the key.
func TestProviderErrors(t *testing.T) {
	t.Parallel()
	soon := map[string]string{"Retry-After-Ms": "1"}
	later := map[string]string{"Retry-After": "3600"}
	said := func(kind, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
	}
	for name, c := range map[string]struct {
		reply    reply
		code     string
		requests int
	}{
		"bad key":          {reply{401, nil, said("authentication_error", "invalid x-api-key "+testKey)}, agent.CodeBadKey, 1},
		"unknown model":    {reply{404, nil, said("not_found_error", "model: claude-nosuch")}, agent.CodeUnknownModel, 1},
		"wrong address":    {reply{404, map[string]string{"Content-Type": "text/html"}, "<h1>404 page not found</h1>"}, agent.CodeUnreachable, 1},
		"another server":   {reply{404, nil, `{"message":"Not Found"}`}, agent.CodeUnreachable, 1},
		"model of vLLM":    {reply{404, nil, `{"object":"error","message":"The model x does not exist.","type":"NotFoundError","param":null,"code":404}`}, agent.CodeUnknownModel, 1},
		"model of Gemini":  {reply{404, nil, "[{\n  \"error\": {\"code\": 404, \"message\": \"models/x is not found\", \"status\": \"NOT_FOUND\"}\n}\n]\n"}, agent.CodeUnknownModel, 1},
		"context overflow": {reply{400, nil, said("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")}, agent.CodeContextOverflow, 1},
		"overflow, llama":  {reply{400, nil, said("exceed_context_size_error", "the request exceeds the available context size, try increasing it")}, agent.CodeContextOverflow, 1},
		"overflow, gemini": {reply{400, nil, said("INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")}, agent.CodeContextOverflow, 1},
		"overflow, openai": {reply{400, nil, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`}, agent.CodeContextOverflow, 1},
		"bad request":      {reply{400, nil, said("invalid_request_error", "messages: roles must alternate")}, agent.CodeBadRequest, 1},
		"no credit":        {reply{429, soon, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`}, agent.CodeNoCredit, 1},
		"rate limit, long": {reply{429, later, said("rate_limit_error", "slow down")}, agent.CodeRateLimited, 1},
		"not an API":       {reply{200, map[string]string{"Content-Type": "text/html", "Retry-After": "3600"}, "<html>hello</html>"}, agent.CodeBadAnswer, 1},
		"not a message":    {reply{200, nil, `{"object":"list"}`}, agent.CodeBadAnswer, 1},
		"wrong form":       {reply{200, nil, `{"type":1,"choices":1}`}, agent.CodeBadAnswer, 1},
		"too large":        {reply{200, nil, strings.Repeat(" ", 64<<20+1)}, agent.CodeBadAnswer, 1},
		"rejected key":     {reply{200, nil, `{"error":{"type":"authentication_error","message":"no","code":401}}`}, agent.CodeBadKey, 1},
		"bidirectional":    {reply{400, nil, said("invalid_request_error", "no\u202e \u0085\u200b")}, agent.CodeBadRequest, 1},
		"redirect":         {reply{302, map[string]string{"Location": "http://127.0.0.1:1/"}, ""}, agent.CodeUnreachable, 1},
		"broken proxy":     {reply{403, map[string]string{"Content-Type": "text/plain"}, "who are you? " + testKey}, agent.CodeBadKey, 1},
	} {
		for kind, path := range map[string]string{"anthropic": "/v1/messages", "openai": "/chat/completions"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				if name == "too large" && !slow.Run() {
					t.Skip("it reads 64 MiB")
				}
				p := serve(t, path, c.reply)
				model, err := provider.Open(kind+":m", provider.Config{BaseURL: p.URL, APIKey: testKey, RetryTimeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				_, err = model.Complete(t.Context(), lookAround)
				failure, ok := errors.AsType[*agent.ProviderError](err)
				if !ok || failure.Code != c.code {
					t.Fatalf("error %v, want code %s", err, c.code)
				}
				if tools.EscapeLine(err.Error()) != err.Error() {
					t.Errorf("invisible characters in %q", err)
				}
				if strings.Contains(err.Error(), "too large") != (name == "too large") {
					t.Errorf("error %v", err)
				}
				if strings.Contains(err.Error(), testKey) {
					t.Errorf("the error contains the key: %v", err)
				}
				if n := len(p.received()); n != c.requests {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
			})
		}
	}
}

// Temporary failures are retried after the time that the provider names.
func TestProviderRetries(t *testing.T) {
	t.Parallel()
	soon := map[string]string{"Retry-After-Ms": "2"}
	seconds := map[string]string{"Retry-After": "0.01"}
	overloaded := reply{529, soon, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}
	limited := reply{429, seconds, `{"error":{"type":"rate_limit_error","message":"slow down"}}`}
	for kind, c := range map[string]struct{ path, turn string }{
		"anthropic": {"/v1/messages", anthropicTurn},
		"openai":    {"/chat/completions", openAITurn},
	} {
		t.Run(kind, func(t *testing.T) {
			replies := []reply{overloaded, limited, {500, soon, "oops"}}
			for _, body := range []string{"", c.turn[:len(c.turn)-9], "<html>busy</html>", overloaded.body, `{"error":"overloaded"}`, limited.body} {
				replies = append(replies, reply{200, soon, body})
			}
			p := serve(t, c.path, append(replies, reply{200, nil, c.turn})...)
			model, err := provider.Open(kind+":m", provider.Config{BaseURL: p.URL, RetryTimeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			res, err := model.Complete(t.Context(), lookAround)
			if err != nil || len(res.Content) == 0 {
				t.Fatalf("response %+v, error %v", res, err)
			}
			received := p.received()
			if len(received) != 10 || received[0] != received[9] {
				t.Errorf("%d requests; want 10 with the same body", len(received))
			}
		})
	}
}

// A detail of a response does not lose the answer in it. What it does not count is estimated.
func TestSloppyResponses(t *testing.T) {
	t.Parallel()
	const turn = `{"type":"message","content":[{"type":"text","text":"hi"}],"choices":[{"message":{"content":"hi"}}],"usage":USAGE}`
	guess := agent.Usage{Input: lookAround.EstimateTokens(), Output: 1}
	for name, c := range map[string]struct {
		body string
		want agent.Usage
	}{
		"usage is a string": {strings.ReplaceAll(turn, "USAGE", `"none"`), guess},
		"usage is an array": {strings.ReplaceAll(turn, "USAGE", `[1]`), guess},
		"one wrong count":   {strings.ReplaceAll(turn, "USAGE", `{"input_tokens":"7","prompt_tokens":"7","output_tokens":5,"completion_tokens":5}`), agent.Usage{Input: guess.Input, Output: 5}},
		"negative counts":   {strings.ReplaceAll(turn, "USAGE", `{"input_tokens":-7,"prompt_tokens":-7,"output_tokens":-5,"completion_tokens":-5}`), guess},
		"byte order mark":   {"\ufeff" + strings.ReplaceAll(turn, "USAGE", `{}`), guess},
		"more values":       {strings.ReplaceAll(turn, "USAGE", `{}`) + "\r\n \x00{} [DONE]", guess},
	} {
		for kind, path := range map[string]string{"anthropic": "/v1/messages", "openai": "/chat/completions"} {
			model, err := provider.Open(kind+":m", provider.Config{BaseURL: serve(t, path, reply{200, nil, c.body}).URL})
			if err != nil {
				t.Fatal(err)
			}
			res, err := model.Complete(t.Context(), lookAround)
			if err != nil || len(res.Content) != 1 || res.Content[0].Text != "hi" || res.Usage != c.want {
				t.Errorf("%s, %s: got %+v, %v", kind, name, res, err)
			}
		}
	}
}

// A server that closes the connection, also in the middle of a response, is
// unreachable.
func TestProviderUnreachable(t *testing.T) {
	t.Parallel()
	for kind, path := range map[string]string{"anthropic": "/v1/messages", "openai": "/chat/completions"} {
		closed := serve(t, path, reply{200, nil, "{}"})
		closed.Close()
		dropped := serve(t, path, reply{200, map[string]string{"Content-Length": "1000"}, "{"})
		for name, server := range map[string]*server{"closed": closed, "dropped": dropped} {
			model, err := provider.Open(kind+":m", provider.Config{BaseURL: server.URL, RetryTimeout: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			_, err = model.Complete(t.Context(), lookAround)
			if failure, ok := errors.AsType[*agent.ProviderError](err); !ok || failure.Code != agent.CodeUnreachable {
				t.Errorf("%s, %s: error %v", kind, name, err)
			}
		}
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"", "anthropic", "anthropic:", "openai:", "script:", "gpt-5", "gemini:x", "script:/no/such/file"} {
		if p, err := provider.Open(spec, provider.Config{}); err == nil {
			t.Errorf("Open(%q) = %T, want an error", spec, p)
		}
	}
	for _, spec := range []string{"anthropic:m", "openai:m"} {
		if _, err := provider.Open(spec, provider.Config{BaseURL: "localhost:11434"}); err == nil {
			t.Errorf("%s: a base URL without a scheme is accepted", spec)
		}
	}
}

// The README names the same model as the demo and the help texts.
func TestExampleModel(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "--model "+provider.ExampleModel) {
		t.Errorf("the README does not name %q", provider.ExampleModel)
	}
}

// A run that was parked asks its provider once before it is parked again.
func TestProbe(t *testing.T) {
	t.Parallel()
	for kind, path := range map[string]string{"anthropic": "/v1/messages", "openai": "/chat/completions"} {
		for name, failure := range map[string]reply{
			"overloaded":    {529, map[string]string{"Retry-After-Ms": "2"}, `{"error":{"message":"Overloaded"}}`},
			"long pause":    {429, map[string]string{"Retry-After": "60"}, `{"error":{"message":"slow down"}}`},
			"cut off":       {200, nil, "data: {"},
			"empty replies": {200, nil, ""},
		} {
			replies := []reply{failure, failure, failure, failure}
			p := serve(t, path, replies...)
			model, err := provider.Open(kind+":m", provider.Config{BaseURL: p.URL})
			if err != nil {
				t.Fatal(err)
			}
			req := lookAround
			req.Probe = true
			_, err = model.Complete(t.Context(), req)
			if got, ok := errors.AsType[*agent.ProviderError](err); !ok || !got.Retryable || len(p.received()) != 1 {
				t.Errorf("%s, %s: %d requests, %v; want 1", kind, name, len(p.received()), err)
			}
		}
	}
}
