package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// dayModel is a server of both wire formats that plays the model in the day of an owner. Its
// rules say what it answers to the last message that begins with their text.
type dayModel struct {
	t       *testing.T
	release chan struct{} // ends the work of the sub-agents

	waiting atomic.Int64 // requests that wait for release

	mu    sync.Mutex
	asked map[string]int // complete turns, by rule and number of results
}

// dayTurn is an answer of the model: a text, or a call.
type dayTurn struct{ text, tool, input string }

// dayRules are the turns by the message that begins a run; want is what the request must
// contain.
var dayRules = []struct {
	message string
	want    string
	turns   []dayTurn
}{
	{"Q-disk", "", []dayTurn{{text: "Alert: the disk is full."}}},
	{"Q-alert", "Alert: the disk is full.", []dayTurn{{text: "It was the disk."}}},
	{"Q-background", "", []dayTurn{{tool: "spawn", input: `{"task":"C-report"}`}, {text: "The job is started."}}},
	{"Q-audit", "", []dayTurn{{tool: "subagent", input: `{"task":"C-audit"}`}, {text: "The audit is fine."}}},
	{"Q-result", "report: 17 errors", []dayTurn{{text: "The job found 17 errors."}}},
	{"Q-delete", "", []dayTurn{{tool: "shell", input: `{"command":"echo gone >> deleted"}`}, {text: "It is deleted."}}},
	{"C-report", "", []dayTurn{{text: "The report: 17 errors."}}},
	{"C-audit", "", []dayTurn{{text: "No problem found."}}},
}

func (m *dayModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err != nil || json.Unmarshal(body, &request) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	rule, results := -1, 0
	for _, message := range request.Messages {
		content := string(message.Content)
		if message.Role == "tool" || strings.Contains(content, `"tool_result"`) {
			results++
		}
		if message.Role != "user" {
			continue
		}
		for i, r := range dayRules { // the newest question of a message is its last one
			if at := strings.LastIndex(content, r.message); at >= 0 && (at == 0 || strings.ContainsAny(content[at-1:at], `"n: `)) {
				rule, results = i, 0
			}
		}
	}
	if rule < 0 {
		m.t.Errorf("no rule for %s", body)
		http.Error(w, "no rule", http.StatusBadRequest)
		return
	}
	if strings.HasPrefix(dayRules[rule].message, "C-") {
		m.waiting.Add(1)
		select {
		case <-m.release:
		case <-r.Context().Done():
			m.waiting.Add(-1)
			return
		}
		m.waiting.Add(-1)
	}
	if !strings.Contains(string(body), dayRules[rule].want) {
		m.t.Errorf("%s: the request does not contain %q", dayRules[rule].message, dayRules[rule].want)
	}
	m.mu.Lock()
	m.asked[fmt.Sprint(dayRules[rule].message, " ", results)]++
	m.mu.Unlock()
	turn := dayRules[rule].turns[min(results, len(dayRules[rule].turns)-1)]
	w.Header().Set("Content-Type", "application/json")
	var answer string
	switch anthropic := strings.HasSuffix(r.URL.Path, "/messages"); {
	case anthropic && turn.tool != "":
		answer = fmt.Sprintf(`{"type":"message","role":"assistant","model":"x","content":[{"type":"tool_use","id":"t%d","name":%q,"input":%s}],"stop_reason":"tool_use","usage":{"input_tokens":1000,"output_tokens":10}}`, len(request.Messages), turn.tool, turn.input)
	case anthropic:
		answer = fmt.Sprintf(`{"type":"message","role":"assistant","model":"x","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":10}}`, turn.text)
	case turn.tool != "":
		answer = fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t%d","type":"function","function":{"name":%q,"arguments":%q}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1000,"completion_tokens":10}}`, len(request.Messages), turn.tool, turn.input)
	default:
		answer = fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":10}}`, turn.text)
	}
	_, _ = io.WriteString(w, answer)
}

// The day of an owner: the heartbeat sends an alert to the phone, the owner asks about it,
// starts a background job and an audit, the process is killed and started again, he asks about
// the result of the job, approves a call from the phone, and looks at the cost. Each question
// is answered once, and no turn is requested twice.
func TestOwnersDay(t *testing.T) {
	slow.Test(t)
	for kind, path := range map[string]string{"anthropic": "", "openai": "/v1"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			model := &dayModel{t: t, release: make(chan struct{}), asked: map[string]int{}}
			server := httptest.NewServer(model)
			t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
			f, dir := newFakeTelegram(t), t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "HEARTBEAT.md"), []byte("Q-disk: look at it.\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			key := filepath.Join(dir, "key")
			if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := talkArgs(t, f, dir, "", "--default-channel", "me", "--ask", "shell", "--api-key-file", key, "--base-url", server.URL+path, "--price", kind+":m=1,10", "--console", "off")
			args[slices.Index(args, "script:"+filepath.Join(dir, "script.jsonl"))] = kind + ":m"
			args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--heartbeat-enabled=false" })
			p, err := launch(append(slices.Clone(args), "--heartbeat-every", "2s", "--heartbeat-allow-short")...)
			if err != nil {
				t.Fatal(err)
			}
			f.awaitText(t, "42", "Alert: the disk is full.")
			p.kill() // with the schedule of the demo
			args = append(args, "--heartbeat-enabled=false")
			if p, err = launch(args...); err != nil {
				t.Fatal(err)
			}
			f.write(42, 1, "Q-alert")
			f.awaitText(t, "42", "It was the disk.")
			f.write(42, 2, "Q-background")
			f.awaitText(t, "42", "The job is started.")
			f.write(42, 3, "Q-audit")
			f.awaitText(t, "42", "⏳ subagent")
			p.kill()
			f.await(t, "the end of the requests of the killed process", func() bool { return model.waiting.Load() == 0 })
			close(model.release)
			start(t, args...)
			f.awaitText(t, "42", "The report: 17 errors.")
			f.awaitText(t, "42", "The audit is fine.")
			f.write(42, 4, "Q-result")
			f.awaitText(t, "42", "The job found 17 errors.")
			f.write(42, 5, "Q-delete")
			var buttons []string
			f.await(t, "the question", func() bool {
				for _, m := range f.sent {
					if len(m.Buttons) == 2 {
						buttons = m.Buttons
					}
				}
				return buttons != nil
			})
			f.press(42, 1, buttons[0])
			f.awaitText(t, "42", "It is deleted.")

			if data, err := os.ReadFile(filepath.Join(dir, "deleted")); err != nil || string(data) != "gone\n" {
				t.Errorf("the file has %q, %v", data, err)
			}
			got := f.sentTo("42")
			for _, text := range []string{"It was the disk.", "The job is started.", "The report: 17 errors.", "The audit is fine.", "The job found 17 errors.", "It is deleted."} {
				n := 0
				for _, sent := range got {
					if strings.Contains(sent, text) {
						n++
					}
				}
				if n != 1 {
					t.Errorf("the chat got %q %d times", text, n)
				}
			}
			model.mu.Lock()
			for turn, n := range model.asked {
				if n != 1 && !strings.HasPrefix(turn, "Q-disk") {
					t.Errorf("the turn %q was requested %d times", turn, n)
				}
			}
			model.mu.Unlock()
			shown := worker(t, "sessions", "show", "me-42", "--data", filepath.Join(dir, "data")).stdout
			if !strings.Contains(shown, "cost 0.0") || strings.Count(shown, "end: done") != 5 {
				t.Errorf("want five runs and their cost:\n%s", shown)
			}
			if t.Failed() {
				t.Logf("the chat got %q at %s", got, time.Now())
			}
		})
	}
}
