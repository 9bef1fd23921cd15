package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHistoryFormats: a result leaves each format that is understood, and nothing else changes.
func TestHistoryFormats(t *testing.T) {
	long := strings.Repeat("long ", 40)
	const reference = `"[Content offloaded to: ./tool-result-c1.md]"`
	for name, row := range map[string]struct{ before, after, file string }{
		"responses": {
			`[{"role":"user","content":"hi"},{"type":"reasoning","id":"r1","summary":[]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"LONG","status":"completed"}]`,
			`[{"role":"user","content":"hi"},{"type":"reasoning","id":"r1","summary":[]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":REF,"status":"completed"}]`, long,
		},
		"responses with a list": {
			`[{"output":[{"type":"input_text","text":"LONG"}],"type":"custom_tool_call_output","call_id":"c1"}]`,
			`[{"output":REF,"type":"custom_tool_call_output","call_id":"c1"}]`, "[\n  {\n    \"type\": \"input_text\",\n    \"text\": \"" + long + "\"\n  }\n]",
		},
		"responses of the provider's tools": {
			`[{"type":"mcp_call","id":"c1","name":"f","arguments":"{}","output":"LONG"},{"type":"local_shell_call_output","id":"c2","output":"short"}]`,
			`[{"type":"mcp_call","id":"c1","name":"f","arguments":"{}","output":REF},{"type":"local_shell_call_output","id":"c2","output":"short"}]`, long,
		},
		"gemini": {
			`[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"result":"LONG"}}},{"text":"x"}]}]`,
			`[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"result":REF}}},{"text":"x"}]}]`, long,
		},
		"gemini without ids": {
			`[{"role":"function","parts":[{"function_response":{"name":"c1","response":{"a":1,"b":"LONG"}}}]}]`,
			`[{"role":"function","parts":[{"function_response":{"name":"c1","response":{"output":REF}}}]}]`, "{\n  \"a\": 1,\n  \"b\": \"" + long + "\"\n}",
		},
		"vercel": {
			`[{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"f","output":{"type":"text","value":"LONG"}}]}]`,
			`[{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","toolName":"f","output":{"type":"text","value":REF}}]}]`, long,
		},
		"vercel with a list": {
			`[{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","output":{"type":"content","value":["LONG"]}}]}]`,
			`[{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","output":{"type":"text","value":REF}}]}]`, "[\n  \"" + long + "\"\n]",
		},
		"vercel 4": {
			`[{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","result":["LONG"]}]}]`,
			`[{"role":"tool","content":[{"type":"tool-result","toolCallId":"c1","result":REF}]}]`, "[\n  \"" + long + "\"\n]",
		},
		"vercel 4 of a page": {
			`[{"id":"m","role":"assistant","toolInvocations":[{"state":"result","toolCallId":"c1","toolName":"f","args":{},"result":"LONG"}],"content":"done"}]`,
			`[{"id":"m","role":"assistant","toolInvocations":[{"state":"result","toolCallId":"c1","toolName":"f","args":{},"result":REF}],"content":"done"}]`, long,
		},
		"vercel 4 of a page, in parts": {
			`[{"id":"m","role":"assistant","content":"","parts":[{"type":"tool-invocation","toolInvocation":{"state":"result","toolCallId":"c1","toolName":"f","args":{},"result":"LONG"}},{"type":"tool-invocation","toolInvocation":{"state":"call","toolCallId":"c2","toolName":"f","args":{}}}]}]`,
			`[{"id":"m","role":"assistant","content":"","parts":[{"type":"tool-invocation","toolInvocation":{"state":"result","toolCallId":"c1","toolName":"f","args":{},"result":REF}},{"type":"tool-invocation","toolInvocation":{"state":"call","toolCallId":"c2","toolName":"f","args":{}}}]}]`, long,
		},
		"responses with a shell": {
			`[{"type":"shell_call_output","call_id":"c1","max_output_length":9,"output":[{"stdout":"LONG","stderr":"","outcome":{"type":"exit","exit_code":0}},{"stdout":"short"}]}]`,
			`[{"type":"shell_call_output","call_id":"c1","max_output_length":9,"output":[{"stdout":REF,"stderr":"","outcome":{"type":"exit","exit_code":0}},{"stdout":"short"}]}]`, long,
		},
		"ollama": {
			`[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"c1","arguments":{}}}]},{"role":"tool","tool_name":"c1","content":"LONG"}]`,
			`[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"c1","arguments":{}}}]},{"role":"tool","tool_name":"c1","content":REF}]`, long,
		},
		"anthropic with mcp": {
			`[{"role":"assistant","content":[{"type":"mcp_tool_use","id":"c1","name":"f","server_name":"s","input":{}},{"type":"mcp_tool_result","tool_use_id":"c1","is_error":false,"content":"LONG"}]}]`,
			`[{"role":"assistant","content":[{"type":"mcp_tool_use","id":"c1","name":"f","server_name":"s","input":{}},{"type":"mcp_tool_result","tool_use_id":"c1","is_error":false,"content":REF}]}]`, long,
		},
		"anthropic with code": {
			`[{"role":"assistant","content":[{"type":"code_execution_tool_result","tool_use_id":"c1","content":{"type":"code_execution_result","stdout":"LONG","stderr":"","return_code":0,"content":[]}}]}]`,
			`[{"role":"assistant","content":[{"type":"code_execution_tool_result","tool_use_id":"c1","content":{"type":"code_execution_result","stdout":REF,"stderr":"","return_code":0,"content":[]}}]}]`, long,
		},
		"vercel of a page": {
			`[{"id":"m","role":"assistant","parts":[{"type":"tool-f","toolCallId":"c1","state":"output-available","input":{},"output":"LONG"}]}]`,
			`[{"id":"m","role":"assistant","parts":[{"type":"tool-f","toolCallId":"c1","state":"output-available","input":{},"output":REF}]}]`, long,
		},
	} {
		dir := t.TempDir()
		text := strings.ReplaceAll(row.before, "LONG", long)
		for range 2 { // the second time, there is nothing to do
			messages, err := ParseHistory([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			res, err := OffloadHistory(t.Context(), messages, dir, Options{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var all []string
			for _, m := range res.Messages {
				all = append(all, m.String())
			}
			text = "[" + strings.Join(all, ",") + "]"
			if want := strings.ReplaceAll(row.after, "REF", reference); text != want {
				t.Errorf("%s: got %s, want %s", name, text, want)
			}
		}
		if data, err := os.ReadFile(filepath.Join(dir, "tool-result-c1.md")); err != nil || string(data) != row.file {
			t.Errorf("%s: the file has %q, %v; want %q", name, data, err, row.file)
		}
		if files, _ := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("%s: %d files", name, len(files))
		}
	}
}

// TestUnknownFormats: a history whose results the package would miss is an error.
func TestUnknownFormats(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"function","name":"f","content":"x"}`:                                          `the role "function"`,
		`{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"text":"x"}]}}]}`: "Amazon Bedrock",
		`{"type":"tool","content":"x","tool_call_id":"c"}`:                                      "LangChain",
		`{"type":"human","data":{"content":"x"}}`:                                               "LangChain",
		`{"lc":1,"type":"constructor","id":["langchain","schema","ToolMessage"],"kwargs":{}}`:   "LangChain",
		`{"foo":"x"}`: "no role, type, content or parts",
		`{"role":"TOOL","tool_results":[{"call":{"name":"f"},"outputs":[{"a":"x"}]}]}`: `the role "TOOL"`,
		`{"role":"tool","blocks":[{"block_type":"text","text":"x"}]}`:                  `the role "tool"`,
		`{"kind":"request","parts":[{"part_kind":"tool-return","content":"x"}]}`:       "Pydantic AI",
		`{"type":"observation","text":"x"}`:                                            `the type "observation"`,
		`{"type":"function_call_output","call_id":"a","call_id":"b","output":"x"}`:     `"call_id" occurs twice`,
	} {
		messages, err := ParseHistory([]byte(`[{"role":"user","content":"hi"},` + message + `]`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := OffloadHistory(t.Context(), messages, t.TempDir(), Options{})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "message 1") || res.Messages != nil {
			t.Errorf("%s: %v; want %s", message, err, want)
		}
	}
}

// TestCodeOfGemini: the output of code that Gemini ran has no id.
func TestCodeOfGemini(t *testing.T) {
	long := strings.Repeat("long ", 40)
	messages, err := ParseHistory([]byte(`[{"role":"model","parts":[{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"` + long + `"}}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := OffloadHistory(t.Context(), messages, t.TempDir(), Options{})
	if err != nil || res.OffloadedCount != 1 || !strings.Contains(res.Messages[0].String(), `{"outcome":"OUTCOME_OK","output":"[Content offloaded to: ./tool-result-unknown.md]"}`) {
		t.Errorf("%+v, %v", res, err)
	}
	for body, want := range map[string]string{
		`{"model":"m","messages":[]}`: `in its field "messages", as in jq .messages`, `{"input":[]}`: "jq .input", `{"contents":[{}]}`: "jq .contents", `{"x":1}`: "not an array of messages",
	} {
		if _, err := ParseHistory([]byte(body)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
