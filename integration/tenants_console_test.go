package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// The role "console" suffices for everything that the page does: the server denies
// nothing, and each request has an answer.
func TestPageWithTheConsoleRole(t *testing.T) {
	s := startTenants(t)
	operator := s.connect("red-operator")
	operator.publish("stevedore.call.default.read_file.s1.c1", `{"args":{"path":"secret.txt"}}`)
	operator.publish("stevedore.call.later.read_file.s1.long", `{"args":{"path":"secret.txt"}}`) // waits
	operator.publish("stevedore.call.default.broken", `{`)                                       // a dead letter
	p := start(t, "console", "--server", s.url, "--nkey", s.key("red-console"), "--inbox-prefix", "_INBOX_console", "--console", "127.0.0.1:0", "--json")
	var first struct{ Console string }
	if err := json.Unmarshal([]byte(p.first), &first); err != nil {
		t.Fatal(err)
	}
	page, err := url.Parse(first.Console)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, "http://"+page.Host+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+page.Query().Get("token"))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if path == "/api/events" {
			return resp.StatusCode, ""
		}
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	last := ""
	for deadline := time.Now().Add(testTimeout); !strings.Contains(last, "broken"); time.Sleep(20 * time.Millisecond) {
		if _, last = ask("GET", "/api/dead", ""); time.Now().After(deadline) {
			t.Fatalf("no dead letter: %s", last)
		}
	}
	for _, path := range []string{
		"state", "status", "running", "waiting", "calls", "calls/s1/c1", "sessions", "approvals", "artifacts/s1", "schedules", "dead", "dead/1", "events",
	} {
		if status, body := ask("GET", "/api/"+path, ""); status != http.StatusOK || strings.Contains(body, `"errors"`) {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	for _, c := range []struct{ path, body string }{
		{"calls/s1/long/cancel", ""}, {"sessions/s2/messages", `{"prompt":"hello"}`}, {"dead/1/retry", ""},
	} {
		if status, body := ask("POST", "/api/"+c.path, c.body); status != http.StatusOK {
			t.Errorf("POST %s: %d %s", c.path, status, body)
		}
	}
	if log := p.stderr.String(); strings.Contains(log, "ermissions Violation") {
		t.Errorf("the permissions do not suffice: %s", log)
	}
}
