package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/console"
	"github.com/stevedore-bus/stevedore/tools"
)

// Without the token, there is only the sign-in page; no view, no data, no action.
func TestTokenIsRequired(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	in.call("secret-session", "c1", "read_file", textArgs{Text: "secret-text"})
	for _, path := range []string{
		"/", "/static/app.js", "/static/views/calls.js", "/api/state", "/api/status", "/api/running", "/api/calls", "/api/calls/secret-session/c1",
		"/api/sessions", "/api/schedules", "/api/dead", "/api/events", "/api/artifacts/secret-session", "/nothing",
	} {
		resp, err := http.Get(in.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || strings.Contains(string(body), "secret") || strings.Contains(string(body), token) {
			t.Errorf("GET %s: %d %.200s", path, resp.StatusCode, body)
		}
	}
	resp, err := http.Post(in.url+"/api/calls/s/c/cancel", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	for _, path := range []string{"/static/signin.js", "/static/style.css"} {
		if resp, err := http.Get(in.url + path); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %v, %v; the sign-in page needs it", path, resp, err)
		}
	}
}

// The files of the page have a policy that allows neither foreign nor inline scripts.
func TestContentPolicy(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	for _, path := range []string{"/", "/static/app.js"} {
		r, _ := http.NewRequest("GET", in.url+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		policy := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q lacks %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(string(body), "http://") || strings.Contains(string(body), "https://") {
			t.Errorf("%s: unsafe policy or a foreign address", path)
		}
	}
}

// A read-only page shows everything and changes nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{ReadOnly: true})
	in.begin("s", "c1", "shell", textArgs{})
	in.job("backup", "shell", "6h")
	in.deadLetter("x", "{")
	for _, path := range []string{"/api/calls/s/c1/cancel", "/api/sessions/s/messages", "/api/schedules/backup/remove", "/api/dead/remove", "/api/calls/cancel", "/api/sessions/s/remove", "/api/channels/log/test"} {
		if status, body := in.request("POST", path, `{"prompt":"x"}`); status != http.StatusForbidden || !strings.Contains(body, "read_only") {
			t.Errorf("POST %s: %d %s", path, status, body)
		}
	}
	if running := get[struct{ Running []task.RunningCall }](in, "/api/running"); len(running.Running) != 1 {
		t.Errorf("running %+v", running)
	}
	if s := get[status.Status](in, "/api/status"); s.DeadLetters != 1 {
		t.Errorf("status %+v", s)
	}
}

// Pages of calls have each call once, newest first, and filters apply to all pages.
func TestCallsInPages(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	const calls = 130
	for i := range calls {
		tool := "read_file"
		if i%10 == 0 {
			tool = "read_manifest"
		}
		in.call(fmt.Sprint("s", i%3), fmt.Sprint("c", i), tool, textArgs{Text: fmt.Sprint("text ", i)})
	}
	read := func(query string) (ids []string) {
		for before := uint64(0); ; {
			page := get[task.History](in, fmt.Sprintf("/api/calls?limit=25&before=%d&%s", before, query))
			for _, c := range page.Endings {
				ids = append(ids, c.ID)
			}
			if before = page.Next; before == 0 {
				return ids
			}
		}
	}
	all := read("")
	if len(all) != calls || all[0] != "c129" || all[calls-1] != "c0" {
		t.Errorf("%d calls, from %s to %s", len(all), all[0], all[len(all)-1])
	}
	if ids := read("tool=read_manifest"); len(ids) != 13 || ids[0] != "c120" {
		t.Errorf("failed: %v", ids)
	}
	if ids := read("session=s1&outcome=completed"); len(ids) != 39 {
		t.Errorf("of a session: %d", len(ids))
	}
	if ids := read("text=TEXT+12"); len(ids) != 11 || ids[0] != "c129" || ids[10] != "c12" {
		t.Errorf("with a text in the result: %v", ids)
	}
	in.call("s", "long", "read_file", textArgs{Text: strings.Repeat("x", 1000) + "a needle <&> in \"hay\"\nand more"})
	for query, want := range map[string]int{
		"text=" + url.QueryEscape("Needle <&> in \"hay\"\nAND"): 1, "text=long": 1, "text=" + url.QueryEscape(`"lines":`): 0, "text=.*": 0, "last=600": calls + 1, "text=needle&last=600&tool=read_file": 1, "text=needle&tool=grep": 0,
		"text=" + url.QueryEscape(`{"text":"text 7"}`): 1,
	} {
		if ids := read(query); len(ids) != want {
			t.Errorf("%s: %d, want %d", query, len(ids), want)
		}
	}
	if status, body := in.request("GET", "/api/calls?last=99999999999999", ""); status != 400 {
		t.Errorf("a time that is too long: %d %s", status, body)
	}
}

// One call has its result; a running one can be cancelled.
func TestOneCall(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	in.call("s", "done", "read_file", textArgs{Text: "<b>text</b>"})
	status, body := in.request("GET", "/api/calls/s/done", "")
	if status != http.StatusOK || !strings.Contains(body, `\u003cb\u003etext`) {
		t.Errorf("%d %s", status, body)
	}
	in.begin("s", "long", "shell", textArgs{Text: "step", Done: 5})
	if status, body := in.request("POST", "/api/calls/s/long/cancel", ""); status != http.StatusOK || !strings.Contains(body, `"cancelled"`) {
		t.Errorf("cancel: %d %s", status, body)
	}
	bustest.WaitUntil(t, "the call to end", func() bool {
		return len(get[struct{ Running []task.RunningCall }](in, "/api/running").Running) == 0
	})
	if status, body := in.request("POST", "/api/calls/s/long/cancel", ""); status != http.StatusBadRequest || !strings.Contains(body, "already ended") {
		t.Errorf("cancel again: %d %s", status, body)
	}
}

// Lines, characters, grep, jq and the download read an artifact.
func TestArtifact(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	in.call("s", "logs", "logs", textArgs{Lines: 20_000})
	in.call("s", "items", "inventory", textArgs{Lines: 3000})
	for path, want := range map[string]string{
		"/api/artifacts/s":        `"logs"`,
		"/api/artifacts":          `"count":2`,
		"/api/artifacts?offset=1": `"artifact_id":"logs"`,
		"/api/artifacts/s/logs":   `"lines":20000`,
		"/api/artifacts/s/logs/lines?start_line=12345&end_line=12346": "0012345 to bay",
		"/api/artifacts/s/logs/get?offset=100&limit=50":               `"chars":50`,
		"/api/artifacts/s/logs/grep?pattern=container+0019999":        `"line":20000`,
		"/api/artifacts/s/items/jq?query=.items|length":               "3000",
		"/api/artifacts/s/logs/lines?start_line=999999":               "invalid_arguments",
		"/api/artifacts/s/logs/lines?start_line=-1":                   "0019999 to bay",
		"/api/artifacts/s/logs/lines?start_line=x":                    "invalid_arguments",
		"/api/artifacts/s/logs/get?artifact_id=items&limit=50":        `"artifact_id":"logs"`,
		"/api/artifacts/s/logs/grep?pattern=(":                        "invalid_arguments",
		"/api/artifacts/s/none":                                       "not_found",
		"/api/artifacts/s/none/content":                               "not_found",
		"/api/artifacts/other/logs":                                   "not_found",
		"/api/artifacts/..%2f..%2f/..%2fetc":                          "not_found",
		"/api/artifacts/" + strings.Repeat("x", 30000) + "/logs":      "invalid_arguments",
		"/api/artifacts/s/logs/grep?pattern=a&max_results=x":          "invalid_arguments",
	} {
		if _, body := in.request("GET", path, ""); !strings.Contains(body, want) {
			t.Errorf("GET %.80s: %.300s, want %s", path, body, want)
		}
	}
	r, _ := http.NewRequest("GET", in.url+"/api/artifacts/s/logs/content", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	if string(data) != logLines(20_000) || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") || resp.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("download: %d bytes, %v", len(data), resp.Header)
	}
}

func TestConversations(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	for i := range 100 {
		in.say(fmt.Sprint("s", i%4), fmt.Sprintf(`{"kind":"user","run":"r%[1]d","at":"2026-11-22T04:00:00Z","message":{"role":"user","content":[{"type":"text","text":"Question\n%[1]d of <many>"}]}}`, i))
	}
	in.say("s0", "not JSON", `{"kind":"end","end":{"reason":"end_turn"},"total":{"turns":3,"input_tokens":10,"output_tokens":20}}`)
	list := get[struct {
		Sessions []struct {
			Session, State, Title string
			Output                int `json:"output_tokens"`
		}
	}](in, "/api/sessions")
	in.say("s3", `{"kind":"end","end":{"reason":"end_turn"}}`, `{"kind":"notice","notice":{"id":"x"}}`)
	if noticed := get[struct {
		Sessions []struct{ Session, State string }
	}](in, "/api/sessions"); noticed.Sessions[0].Session != "s3" || noticed.Sessions[0].State != "end_turn" {
		t.Errorf("after a notice: %+v", noticed)
	}
	if len(list.Sessions) != 4 || list.Sessions[0].Session != "s0" || list.Sessions[0].State != "end_turn" || list.Sessions[0].Output != 20 || list.Sessions[1].State != "open" {
		t.Errorf("sessions %+v", list)
	}
	if list.Sessions[1].Title != "Question 3 of <many>" {
		t.Errorf("the title: %+v", list.Sessions[1])
	}
	type found struct {
		Sessions []struct{ Session, Title, Match string }
	}
	for text, want := range map[string]string{"question%0A98": "s2 Question 98 of <many>", "S1": "s1 ", "98+OF+%3CMANY": "s2 Question 98 of <many>", "sation": ""} {
		var got strings.Builder
		for _, s := range get[found](in, "/api/sessions?text="+text).Sessions {
			got.WriteString(s.Session + " " + s.Match)
		}
		if got.String() != want {
			t.Errorf("search for %s: %q, want %q", text, got.String(), want)
		}
	}
	if status, body := in.request("POST", "/api/sessions/s2/remove", ""); status != http.StatusConflict || !strings.Contains(body, "not ended") {
		t.Errorf("remove while a run is open: %d %s", status, body)
	}
	if status, body := in.request("POST", "/api/sessions/none/remove", ""); status != http.StatusNotFound {
		t.Errorf("remove nothing: %d %s", status, body)
	}
	type entries struct {
		Entries []struct {
			Sequence uint64
			Entry    json.RawMessage
		}
		Next uint64
	}
	log := get[entries](in, "/api/sessions/s0")
	if len(log.Entries) != 27 || !strings.Contains(string(log.Entries[1].Entry), "unreadable") {
		t.Errorf("%d entries, %s", len(log.Entries), log.Entries[1].Entry)
	}
	after := get[entries](in, fmt.Sprintf("/api/sessions/s0?after=%d", log.Entries[2].Sequence))
	if len(after.Entries) != 2 {
		t.Errorf("%d entries after, want 2", len(after.Entries))
	}
	if status, body := in.request("POST", "/api/sessions/new/messages", `{"prompt":"hello"}`); status != http.StatusOK || !strings.Contains(body, `"session":"new"`) || strings.Contains(body, "warning") {
		t.Errorf("message: %d %s", status, body)
	}
	token := tools.Token("mail-ada@example.com")
	in.say(token, `{"kind":"user","call":{"id":"c1","session":"mail-ada@example.com","tool":"agent"},"message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`)
	if status, body := in.request("POST", "/api/sessions/"+token+"/messages", `{"prompt":"hello"}`); status != http.StatusOK || !strings.Contains(body, `"session":"`+token+`"`) {
		t.Errorf("message to %s: %d %s", token, status, body)
	}
	for _, bad := range []string{"", "{}", `{"prompt":" "}`, `{"prompt":5}`, "[]", `{"prompt":"` + strings.Repeat("x", 2<<20) + `"}`} {
		if status, body := in.request("POST", "/api/sessions/new/messages", bad); status != http.StatusBadRequest {
			t.Errorf("body %.40q: %d %s", bad, status, body)
		}
	}
}

func TestDeadLettersSchedulesChannels(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	in.deadLetter("x", `{"id": <script>`)
	list := get[struct{ Dead []struct{ Number uint64 } }](in, "/api/dead")
	if len(list.Dead) != 1 {
		t.Fatalf("dead letters %+v", list)
	}
	letter := fmt.Sprint("/api/dead/", list.Dead[0].Number)
	if _, body := in.request("GET", letter, ""); !strings.Contains(body, `\u003cscript\u003e`) {
		t.Errorf("letter %s", body)
	}
	for _, path := range []string{"/api/dead/0", "/api/dead/-1", "/api/dead/x", "/api/dead/999"} {
		if status, body := in.request("GET", path, ""); status != http.StatusBadRequest && status != http.StatusNotFound {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	if status, _ := in.request("POST", "/api/dead/explode", `{"numbers":[1]}`); status != http.StatusBadRequest {
		t.Errorf("unknown action: %d", status)
	}
	if status, body := in.request("POST", "/api/dead/remove", fmt.Sprintf(`{"numbers":[%d,999]}`, list.Dead[0].Number)); status != http.StatusOK || !strings.Contains(body, `"changed":1,"failed":1,"error":"dead letter 999`) {
		t.Errorf("remove: %d %s", status, body)
	}
	if status, _ := in.request("GET", letter, ""); status != http.StatusNotFound {
		t.Errorf("removed letter: %d", status)
	}

	in.heartbeat()
	if _, body := in.request("GET", "/api/schedules", ""); !strings.Contains(body, `"outcome":"completed"`) || !strings.Contains(body, `"used":{"turns":2,"input_tokens":540,"output_tokens":12,"cost":0.3}`) {
		t.Errorf("the heartbeat's last run: %s", body)
	}
	in.job("backup", "shell", "6h")
	if _, body := in.request("GET", "/api/schedules", ""); strings.Count(body, "T") < 5 || !strings.Contains(body, `"args_excerpt":"{\"text\":\"make backup\"}"`) || !strings.Contains(body, `"every 6h"`) {
		t.Errorf("schedules %s", body)
	}
	if status, body := in.request("POST", "/api/schedules/backup/disable", ""); status != http.StatusOK || !strings.Contains(body, `"enabled":false,"idle":"disabled"`) {
		t.Errorf("disable: %d %s", status, body)
	}
	if status, body := in.request("POST", "/api/schedules/none/enable", ""); status != http.StatusNotFound {
		t.Errorf("enable: %d %s", status, body)
	}

	if status, body := in.request("POST", "/api/channels/log/test", ""); status != http.StatusOK || !strings.Contains(body, `"accepted"`) {
		t.Errorf("test of a channel: %d %s", status, body)
	}
	if text, err := os.ReadFile(in.notes); err != nil || !strings.Contains(string(text), "This is a test") {
		t.Errorf("channel has %q, %v", text, err)
	}
	if status, body := in.request("POST", "/api/channels/none/test", ""); status != http.StatusNotFound {
		t.Errorf("test of no channel: %d %s", status, body)
	}
}

// Live events report running calls, progress, and calls that end.
func TestEvents(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	in.begin("s", "long", "shell", textArgs{Text: "halfway", Done: 50})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", in.url+"/api/events", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("content type %q", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	until := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the stream ended before %s", text)
	}
	until(`"halfway"`)
	in.call("s", "short", "read_file", textArgs{Text: "line\nbreak"})
	until(`"line break"`)
	close(in.end)
	until(`"running":[]`)
}

// Calls in a queue without a worker are listed as waiting, in both forms of their subject.
func TestWaitingCalls(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{})
	bustest.Consumers(t, in.bus, in.bus.WorkerConsumer("gpu"))
	for _, n := range []string{"1", "2"} {
		body := fmt.Sprintf(`{"id":"c%s","session":"s%s"}`, n, n)
		if _, err := in.bus.Publish(t.Context(), bus.Message{Subject: in.bus.Call("gpu", "train", "s"+n, "c"+n), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	var list []task.WaitingCall
	bustest.WaitUntil(t, "the server to count what waits", func() bool { // it tells the consumer after the publisher
		list = get[struct{ Waiting []task.WaitingCall }](in, "/api/waiting").Waiting
		return len(list) == 2
	})
	if list[0].ID != "c1" || list[1].Session != "s2" || list[1].Queue != "gpu" || list[0].QueuedAt.IsZero() {
		t.Errorf("waiting %+v", list)
	}
	if status, body := in.request("POST", "/api/calls/s1/c1/cancel", ""); status != http.StatusOK || !strings.Contains(body, "cancelled") {
		t.Errorf("cancel: %d %s", status, body)
	}
}

// A signed link gives the bytes of one artifact without a token, until it expires.
func TestSignedLink(t *testing.T) {
	t.Parallel()
	in := start(t, console.Config{ReadOnly: true})
	in.call("s", "logs", "logs", textArgs{Lines: 20_000})
	in.call("s", "stock", "inventory", textArgs{Lines: 3000})
	type signedLink struct {
		Path      string    `json:"path"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	link, name := get[signedLink](in, "/api/artifacts/s/logs/link"), ""
	if left := time.Until(link.ExpiresAt); left < 50*time.Minute || left > time.Hour {
		t.Errorf("it expires in %s", left)
	}
	fetch := func(path string) (int, string) {
		resp, err := http.Get(in.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		name = resp.Header.Get("Content-Disposition")
		return resp.StatusCode, string(data)
	}
	if status, body := fetch(get[signedLink](in, "/api/artifacts/s/stock/link").Path); status != http.StatusOK || name != "attachment; filename=stock.json" {
		t.Errorf("the link of a table: status %d, %d bytes, %s", status, len(body), name)
	}
	if status, body := fetch(link.Path); status != http.StatusOK || strings.Count(body, "\n") < 20_000 {
		t.Errorf("the link: status %d, %d bytes", status, len(body))
	}
	for what, path := range map[string]string{
		"another artifact": strings.Replace(link.Path, "/logs/", "/other/", 1),
		"another session":  strings.Replace(link.Path, "/s/", "/t/", 1),
		"a later end":      strings.Replace(link.Path, "expires=1", "expires=2", 1),
		"no signature":     link.Path[:strings.Index(link.Path, "&signature")],
		"another function": strings.Replace(link.Path, "/content", "/lines", 1),
	} {
		if status, body := fetch(path); status < 400 || strings.Contains(body, "0012345 to bay") {
			t.Errorf("%s: status %d, %.200s", what, status, body)
		}
	}
}
