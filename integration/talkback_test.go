package integration

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// talkScript answers each message of a conversation, with a tool call in the second turn.
const talkScript = `{"text":"Hello Ann."}
{"tools":[{"name":"shell","input":{"command":"until [ -e go ]; do sleep 0.02; done"}}]}
{"text":"It is done."}
{"text":"Third answer."}
{"text":"Fourth answer."}
`

// talkArgs are the arguments of a worker that talks through the fake Bot API.
func talkArgs(t *testing.T, f *fakeTelegram, dir, script string, more ...string) []string {
	t.Helper()
	for name, content := range map[string]string{"script.jsonl": script, "token": telegramToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return append([]string{"up", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--workspace", dir, "--heartbeat-enabled=false", "--no-sync",
		"--model", "script:" + filepath.Join(dir, "script.jsonl"), "--tool-output", "none", "--shell-sandbox", "off",
		"--channel", "me=telegram:token=file:" + filepath.Join(dir, "token") + ",chat=42,allow=43,server=" + f.URL, "--receive", "me"}, more...)
}

// A chat is a session: each message of an allowed chat gets one answer, also if updates
// arrive twice and requests fail. Other chats get none. While a tool runs, the chat shows
// it, and nothing of that remains.
func TestTelegramConversation(t *testing.T) {
	t.Parallel()
	f, dir := newFakeTelegram(t), t.TempDir()
	failed := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(status); fmt.Fprint(w, body) }
	}
	f.failures = []func(http.ResponseWriter){
		failed(http.StatusBadGateway, "<html>"), failed(http.StatusTooManyRequests, `{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":1}}`),
		failed(http.StatusOK, `{"ok":true,"result":[{"update_id":"x"},{"update_id":7,"message":{"message_id":"no number"}}]}`),
	}
	args := talkArgs(t, f, dir, talkScript)
	p := start(t, append(args, "--json")...)
	f.write(42, 1, "hi")
	f.write(99, 1, "a secret of a stranger")
	f.awaitText(t, "42", "Hello Ann.")

	f.write(42, 2, "run it")
	f.await(t, "the status", func() bool {
		return f.typing > 0 && slices.ContainsFunc(f.sent, func(m telegramSent) bool { return strings.HasPrefix(m.Text, "⏳ shell") })
	})
	f.write(42, 9, "/stop@other_bot") // is not for this bot
	f.await(t, "the confirmation of the command", func() bool { return len(f.updates) == 0 })
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.awaitText(t, "42", "It is done.")
	f.await(t, "the answer in the message of its status", func() bool {
		return slices.ContainsFunc(f.sent, func(m telegramSent) bool { return m.Text == "It is done." && m.Edits > 0 })
	})

	f.write(42, 2, "run it") // the same message in another update
	f.write(42, 1, "hi")
	f.write(42, 3, "and now?")
	f.awaitText(t, "42", "Third answer.")
	shown := worker(t, "sessions", "show", "me-42", "--data", filepath.Join(dir, "data")).stdout
	if strings.Count(shown, "  user\n") != 3 || !strings.Contains(shown, "and now?") {
		t.Errorf("want three runs, the last one for the third message:\n%s", shown)
	}
	if got, want := f.sentTo("42"), []string{"Hello Ann.", "It is done.", "Third answer."}; !slices.Equal(got, want) {
		t.Errorf("the chat got %q, want %q", got, want)
	}
	if got := f.sentTo("99"); len(got) > 0 {
		t.Errorf("a stranger got %q", got)
	}
	// Another worker waits.
	second := start(t, append([]string{"serve", "--server", urlOf(t, p), "--data", t.TempDir(), "--workspace", dir}, args[slices.Index(args, "--model"):]...)...)
	f.await(t, "the other worker to wait", func() bool { return strings.Contains(second.stderr.String(), "another process receives the messages") })
	if log := p.stderr.String(); !strings.Contains(log, `"chat":"99"`) || strings.Contains(log, "a secret") || strings.Contains(log, telegramToken) {
		t.Errorf("log: %s", log)
	}
}

// The agent gets the photos and documents of a chat, each once, although a download fails and
// the message arrives twice. It is told of a file that it cannot get.
func TestTelegramFiles(t *testing.T) {
	t.Parallel()
	f, dir := newFakeTelegram(t), t.TempDir()
	var photo bytes.Buffer
	if err := png.Encode(&photo, image.NewGray(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	f.files = map[string][]byte{"large": photo.Bytes(), "table": []byte("name,port\nweb,80\n")}
	start(t, talkArgs(t, f, dir, talkScript)...)
	from := map[string]any{"id": 42, "first_name": "Ann"}
	message := func(id int, content map[string]any) {
		content["message_id"], content["from"], content["chat"] = id, from, map[string]any{"id": 42, "type": "private"}
		f.add("message", content)
	}
	sizes := []any{map[string]any{"file_id": "small", "file_size": 10}, map[string]any{"file_id": "large", "file_size": photo.Len()}}
	for range 2 {
		message(1, map[string]any{"photo": sizes, "caption": "what is it?"})
	}
	f.awaitText(t, "42", "Hello Ann.")
	message(2, map[string]any{"document": map[string]any{"file_id": "table", "file_name": "hosts\n.csv", "mime_type": "text/csv"}})
	message(3, map[string]any{"document": map[string]any{"file_id": "gone", "file_name": "gone.txt"}})
	message(4, map[string]any{"document": map[string]any{"file_id": "table", "file_name": "huge.txt", "file_size": 30 << 20}})
	message(5, map[string]any{"document": "no object", "text": "odd"})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.awaitText(t, "42", "Fourth answer.")
	data := filepath.Join(dir, "data")
	shown := worker(t, "sessions", "show", "me-42", "--data", data).stdout
	for _, want := range []string{"  image\n", `the picture "photo.jpg", which you see above`, "web,80", `"gone.txt", which you cannot see`, `"huge.txt", which you cannot see: it has more than 20 MB`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the conversation has no %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, telegramToken) {
		t.Error("the conversation has the token")
	}
	if n := strings.Count(worker(t, "artifacts", "ls", "--session", "me-42", "--data", data).stdout, "message-"); n != 2 {
		t.Errorf("there are %d artifacts, want 2", n)
	}
}

// A worker that is killed at any time loses no message and answers none twice.
func TestTelegramKilled(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	f, dir := newFakeTelegram(t), t.TempDir()
	script := strings.Repeat(`{"text":"An answer.","delay":"20ms"}`+"\n", 50)
	// All kills may hit the first run before its first step.
	args := talkArgs(t, f, dir, script, "--lease", "1s", "--max-attempts", "20")
	const messages = 6
	for i := range messages {
		p, err := launch(args...)
		if err != nil {
			t.Fatal(err)
		}
		f.write(42, i+1, fmt.Sprint("message ", i))
		time.Sleep(time.Duration(i*25) * time.Millisecond)
		p.kill()
	}
	start(t, args...)
	f.await(t, "all answers", func() bool {
		answers := 0
		for _, m := range f.sent {
			if m.Text == "An answer." {
				answers++
			}
		}
		return answers >= messages
	})
	f.write(42, messages+1, "the last one")
	f.await(t, "the last answer", func() bool { return len(f.sent) > messages })
	// The Bot API has no idempotency key: a message may appear twice if the process dies
	// between sending it and recording that. Count the runs.
	out := ""
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline) && !strings.Contains(out, "done"); {
		if out = worker(t, "sessions", "ls", "--data", filepath.Join(dir, "data")).stdout; !strings.Contains(out, fmt.Sprintf(" %d ", messages+1)) {
			out = strings.ReplaceAll(out, "done", "") // an answer that appeared twice is not the last one
		}
	}
	if !strings.Contains(out, "me-42") || !strings.Contains(out, fmt.Sprintf(" %d ", messages+1)) {
		t.Errorf("sessions, want %d turns:\n%s", messages+1, out)
	}
}

// The user approves a call with a button, and rejects the next one. A press in another
// chat, or of an old button, changes nothing.
func TestTelegramApproval(t *testing.T) {
	t.Parallel()
	f, dir := newFakeTelegram(t), t.TempDir()
	script := `{"tools":[{"name":"shell","input":{"command":"echo yes > ran"}}]}
{"tools":[{"name":"shell","input":{"command":"echo no > ran"}}]}
{"text":"I asked twice."}
`
	start(t, talkArgs(t, f, dir, script, "--ask", "shell")...)
	f.write(42, 1, "do it")
	buttons := func(n int) []string {
		var found [][]string
		f.await(t, "the buttons", func() bool {
			found = nil
			for _, m := range f.sent {
				if len(m.Buttons) == 2 && m.Chat == "42" {
					found = append(found, m.Buttons)
				}
			}
			return len(found) >= n
		})
		return found[n-1]
	}
	first := buttons(1)
	f.press(99, 1, first[0])
	f.press(43, 1, first[0])
	f.await(t, "the reaction to the press in another chat", func() bool { return len(f.answered) == 1 })
	f.press(42, 1, first[0])
	second := buttons(2)
	f.press(42, 1, first[1])
	f.press(42, 2, second[1])
	f.awaitText(t, "42", "I asked twice.")
	if data, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || string(data) != "yes\n" {
		t.Errorf("the file is %q, %v", data, err)
	}
	f.await(t, "the reactions", func() bool { return len(f.answered) == 4 })
	if got := strings.Join(f.answered, "|"); !strings.Contains(got, "Approved") || !strings.Contains(got, "Rejected") {
		t.Errorf("answers %s", got)
	}
}

// A platform posts signed messages; the answer goes to its webhook.
func TestSignedMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	answered := make(chan struct{}, 100)
	h := newHook(t, func() { answered <- struct{}{} })
	for name, content := range map[string]string{"script.jsonl": talkScript, "secret": hookSecret} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "up", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--workspace", dir, "--heartbeat-enabled=false", "--no-sync",
		"--model", "script:"+filepath.Join(dir, "script.jsonl"), "--shell-sandbox", "off",
		"--channel", "app=webhook:url="+h.URL+",secret=file:"+filepath.Join(dir, "secret")+",allow=c1", "--receive", "app", "--receive-listen", "127.0.0.1:0")
	unanswered := start(t, "up", "--data", filepath.Join(dir, "none"), "--listen", "127.0.0.1:0", "--workspace", dir, "--heartbeat-enabled=false", "--no-sync", "--console", "off",
		"--channel", "app=webhook:url="+h.URL+",secret=file:"+filepath.Join(dir, "secret")+",allow=c1", "--receive", "app", "--receive-listen", "127.0.0.1:0")
	bustest.WaitUntil(t, "a warning that nobody answers", func() bool { return strings.Contains(unanswered.stderr.String(), "--model") })
	if strings.Contains(p.stderr.String(), "--model") {
		t.Error("a process with a model warns that it has none")
	}
	address := ""
	for deadline := time.Now().Add(testTimeout); address == "" && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, rest, ok := strings.Cut(p.stderr.String(), `"address":"`); ok {
			address, _, _ = strings.Cut(rest, `"`)
		}
	}
	signer, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	post := func(id, body string, at time.Time, change func(http.Header)) int {
		t.Helper()
		signature, err := signer.Sign(id, at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest(http.MethodPost, "http://"+address+"/messages/app", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Webhook-Id", id)
		req.Header.Set("Webhook-Timestamp", fmt.Sprint(at.Unix()))
		req.Header.Set("Webhook-Signature", signature)
		if change != nil {
			change(req.Header)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusUnauthorized && !res.Close {
			t.Error("a client without the secret keeps its connection")
		}
		return res.StatusCode
	}
	now := time.Now()
	hello := `{"chat_id":"c1","text":"hi","from":"Ann"}`
	for name, c := range map[string]struct {
		body   string
		at     time.Time
		change func(http.Header)
		want   int
	}{
		"no signature":    {hello, now, func(h http.Header) { h.Del("Webhook-Signature") }, 401},
		"other id":        {hello, now, func(h http.Header) { h.Set("Webhook-Id", "m9") }, 401},
		"old":             {hello, now.Add(-time.Hour), nil, 401},
		"future":          {hello, now.Add(time.Hour), nil, 401},
		"stranger":        {`{"chat_id":"c2","text":"hi"}`, now, nil, 403},
		"all chats":       {`{"chat_id":"*","text":"hi"}`, now, nil, 403},
		"no chat":         {`{"text":"hi"}`, now, nil, 400},
		"no text":         {`{"chat_id":"c1","text":" "}`, now, nil, 400},
		"not JSON":        {`hi`, now, nil, 400},
		"a field twice":   {`{"chat_id":"c2","chat_id":"c1","text":"hi"}`, now, nil, 400},
		"not UTF-8":       {"{\"chat_id\":\"c1\",\"text\":\"\xff\"}", now, nil, 400},
		"too large":       {strings.Repeat(" ", 300<<10), now, nil, 413},
		"another channel": {hello, now, func(h http.Header) {}, 202},
	} {
		if got := post("m1", c.body, c.at, c.change); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	<-answered
	for range 3 { // delivered again
		if got := post("m1", hello, time.Now(), nil); got != 202 {
			t.Errorf("status %d", got)
		}
	}
	if got := post("m1", `{"chat_id":"c1","text":"other"}`, time.Now(), nil); got != 409 {
		t.Errorf("another text with the same id: status %d", got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if got := h.chats["c1"]; !slices.Equal(got, []string{"Hello Ann."}) || len(h.problems) > 0 {
		t.Errorf("answers %q, problems %v", got, h.problems)
	}
}

// A process that only sends knows that another one receives: what it sends first to a new chat is in the
// conversation of the chat.
func TestNotifierKnowsWhoReceives(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ="), 0o600); err != nil {
		t.Fatal(err)
	}
	channel := []string{"--channel", "app=webhook:url=http://127.0.0.1:9/x,secret=file:" + secret + ",allow=r1"}
	u := startUp(t, append([]string{"--no-notify", "--receive", "app", "--receive-listen", "127.0.0.1:0"}, channel...)...)
	start(t, append([]string{"serve", "--server", u.url, "--queue", "other", "--workspace", t.TempDir()}, channel...)...)
	connect(t, u.url).publish("stevedore.notify.app.r1", `{"text":"The backup is done."}`)
	await(t, u.process, "the conversation of the chat", func() bool {
		return strings.Contains(worker(t, "sessions", "show", "app-r1", "--server", u.url).stdout, "The backup is done.")
	})
}
