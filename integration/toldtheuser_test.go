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
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// toldModel answers the last question of a request by its turns, and keeps the texts of the last
// request: those of users, of the model, and of the messages that it sends.
type toldModel struct {
	mu    sync.Mutex
	turns map[string][]dayTurn
	texts []string
}

type toldRequest struct {
	Messages []struct {
		Role    string `json:"role"`
		Content []struct {
			Type  string            `json:"type"`
			Text  string            `json:"text"`
			Name  string            `json:"name"`
			Input map[string]string `json:"input"`
		} `json:"content"`
	} `json:"messages"`
}

func (m *toldModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request toldRequest
	_ = json.Unmarshal(body, &request) // some tools have arguments that are no strings
	if err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	question, done := "", 0
	m.texts = nil
	for _, message := range request.Messages {
		for _, block := range message.Content {
			switch {
			case block.Type == "text":
				m.texts = append(m.texts, block.Text)
				if name, _, _ := strings.Cut(block.Text, "\n"); m.turns[name] != nil {
					question, done = name, 0
				}
			case block.Type == "tool_use" && block.Name == "message":
				m.texts = append(m.texts, block.Input["content"])
			case block.Type == "tool_result":
				done++
			}
		}
	}
	if question == "" {
		http.Error(w, `{"error":{"type":"invalid_request_error","message":"no question"}}`, http.StatusBadRequest)
		return
	}
	turn := m.turns[question][min(done, len(m.turns[question])-1)]
	content := map[string]any{"type": "text", "text": turn.text}
	stop := "end_turn"
	switch {
	case turn.tool != "":
		content, stop = map[string]any{"type": "tool_use", "id": fmt.Sprintf("t%d-%d", len(request.Messages), done), "name": turn.tool, "input": json.RawMessage(turn.input)}, "tool_use"
	case turn.text == "":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"type":"error","error":{"type":"invalid_request_error","message":"The model is not in the mood."}}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "message", "role": "assistant", "model": "x", "content": []any{content}, "stop_reason": stop,
		"usage": map[string]int{"input_tokens": 10, "output_tokens": 10}})
}

// count returns how often the last request has a text.
func (m *toldModel) count(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, known := range m.texts {
		n += strings.Count(known, text)
	}
	return n
}

// Whatever a chat shows is in the next request of its conversation once: reminders that the chat
// set itself, also before its first message, messages, answers, errors, questions and
// completions. Two processes deliver, and each of them is killed while it sends.
func TestConversationKnowsWhatItsUserWasTold(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	model := &toldModel{turns: map[string][]dayTurn{
		"Q-remind": {
			{tool: "cron", input: `{"action":"add","name":"pills","message":"Take your pills.","in_seconds":"1"}`},
			{tool: "cron", input: `{"action":"add","name":"pills","message":"Take your pills.","in_seconds":1}`},
			{tool: "message", input: `{"content":"I am setting it."}`}, {text: "The reminder is set."},
		},
		"Q-done":  {{text: "Well done."}},
		"Q-shell": {{tool: "shell", input: `{"command":"echo ran > ran"}`}, {text: "It has run."}},
		"Q-fail":  {{}},
		"Q-spawn": {{tool: "spawn", input: `{"task":"C-user","delivery":"user"}`}, {tool: "spawn", input: `{"task":"C-both"}`}, {text: "Both are started."}},
		"C-user":  {{text: "Report for the user."}},
		"C-both":  {{text: "Report for both."}},
		"Q-end":   {{text: "That was all."}},
	}}
	server := httptest.NewServer(model)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	f, dir := newFakeTelegram(t), t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := talkArgs(t, f, dir, "", "--json", "--ask", "shell", "--api-key-file", key, "--base-url", server.URL, "--console", "off", "--lease", "1s")
	args[slices.Index(args, "script:"+filepath.Join(dir, "script.jsonl"))] = "anthropic:m"
	args[slices.Index(args, "127.0.0.1:0")] = bustest.FreeAddress(t)
	data := filepath.Join(dir, "data")
	p, err := launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.kill() })
	// The user has not written yet.
	if got := worker(t, "cron", "add", "hello", "message", "content=Good morning.", "--at", "1s", "--session", "me-42", "--channel", "me", "--data", data); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	f.awaitText(t, "42", "Good morning.")
	second, err := launch("serve", "--server", urlOf(t, p), "--queue", "other", "--workspace", dir, "--default-channel", "me",
		"--channel", args[slices.Index(args, "--channel")+1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.kill() })
	killed := make(chan struct{})
	f.kill = func(text string) {
		if strings.Contains(text, "Take your pills.") {
			f.kill = nil
			_ = second.cmd.Process.Kill()
			_ = p.cmd.Process.Kill()
			close(killed)
		}
	}
	f.write(42, 1, "Q-remind")
	<-killed
	<-p.exited
	if p, err = launch(args...); err != nil {
		t.Fatal(err)
	}
	f.awaitText(t, "42", "The reminder is set.") // on a busy machine, the reminder was due before
	if n := model.count("Good morning."); n != 1 {
		t.Errorf("the request has the reminder before the first message %d times", n)
	}
	f.write(42, 2, "Q-done")
	f.awaitText(t, "42", "Well done.")
	if n := model.count("Take your pills."); n != 1 {
		t.Errorf("the request has the reminder %d times", n)
	}
	f.write(42, 3, "Q-shell")
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
	f.awaitText(t, "42", "It has run.")
	f.write(42, 4, "Q-fail")
	f.awaitText(t, "42", "not in the mood")
	f.write(42, 5, "Q-spawn")
	for _, text := range []string{"Both are started.", "Report for the user.", "Report for both."} {
		f.awaitText(t, "42", text)
	}
	f.write(42, 6, "Q-end")
	f.awaitText(t, "42", "That was all.")

	texts := f.sentTo("42")
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) { // Telegram shows one twice if the sender was killed
		first, _, _ := strings.Cut(strings.TrimPrefix(text, "⚠ "), "\n")
		if n := model.count(first); n != 1 && first != "That was all." {
			t.Errorf("the last request has %q %d times", first, n)
		}
	}
	if t.Failed() {
		t.Logf("the chat got %q\nthe last request has %q\n%s", f.sentTo("42"), model.texts, p.stderr)
	}
}
