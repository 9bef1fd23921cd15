package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// fakeModel is a server of a model's API: it makes a big result, searches it, reads the
// lines around the match, and answers.
type fakeModel struct {
	t         *testing.T
	mu        sync.Mutex
	turns     int
	anthropic bool
	largest   int // bytes of the largest request
}

// The calls of the model in its turns. An id is that of a real API.
func (m *fakeModel) call(turn int) (id, name, args string) {
	switch turn {
	case 0:
		return "toolu_01big", "shell", `{"command":"seq 1 200000"}`
	case 1:
		return "toolu_02grep", "grep_knowledge", `{"artifact_id":"toolu_01big","pattern":"^12345[67]$"}`
	case 2:
		return "toolu_03lines", "get_knowledge_by_lines", `{"artifact_id":"toolu_01big","start_line":123456,"end_line":123457}`
	}
	return "", "", ""
}

// wants are texts of the tool results that the model has received before a turn.
var wants = []string{"", "toolu_01big", "Found 2 match", "123456\\n123457"}

func (m *fakeModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		m.t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.largest = max(m.largest, len(body))
	var request struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(body, &request); err != nil || len(request.Tools) < 10 || !strings.Contains(string(body), wants[min(m.turns, 3)]) {
		m.t.Errorf("turn %d: %d tools, %v, want %q in\n%s", m.turns, len(request.Tools), err, wants[min(m.turns, 3)], body)
	}
	id, name, args := m.call(m.turns)
	m.turns++
	w.Header().Set("Content-Type", "application/json")
	var answer string
	switch {
	case m.anthropic && name == "":
		answer = `{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"Found it."}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	case m.anthropic:
		answer = fmt.Sprintf(`{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`, id, name, args)
	case name == "":
		answer = `{"id":"m","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Found it."},"finish_reason":"stop"}]}`
	default:
		answer = fmt.Sprintf(`{"id":"m","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]},"finish_reason":"tool_calls"}]}`, id, name, args)
	}
	_, _ = io.WriteString(w, answer)
}

// Agents in other languages run a tool with a big result and read it back.
func TestAgentsInOtherLanguages(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	up := startUp(t, "--console", "off")
	for _, tt := range []struct {
		file      string
		language  func(*testing.T) language
		anthropic bool
		url       string
	}{
		{"agent.anthropic.mjs", nodeJS, true, "ANTHROPIC_BASE_URL=%s"},
		{"agent.openai.mjs", nodeJS, false, "OPENAI_BASE_URL=%s/v1"},
		{"agent.py", python, false, "OPENAI_BASE_URL=%s/v1"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			l := tt.language(t)
			model := &fakeModel{t: t, anthropic: tt.anthropic}
			server := httptest.NewServer(model)
			t.Cleanup(server.Close)
			out := l.program(t, []string{tt.file, "Find it."}, parseURL(t, up.url), nil, fmt.Sprintf(tt.url, server.URL), "ANTHROPIC_API_KEY=x", "OPENAI_API_KEY=x")
			if !strings.Contains(out, "Found it.") || model.turns != 4 {
				t.Errorf("%d turns, output %q", model.turns, out)
			}
			if model.largest > 60_000 { // the result has 1.3 million bytes
				t.Errorf("the largest request has %d bytes", model.largest)
			}
		})
	}
}
