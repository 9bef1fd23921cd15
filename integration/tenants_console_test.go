package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
)

// The role "console" suffices for everything that the page does: the server denies
// nothing, and each request has an answer.
func TestPageWithTheConsoleRole(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := startTenants(t, "--ask", "write_file")
	page := s.page("red-console", "--inbox-prefix", "_INBOX_console")
	page.shows()
	for _, c := range []struct{ path, body string }{
		{"calls/s1/long/cancel", ""}, {"approvals/s1/ask", `{"approve":false}`}, {"sessions/s2/messages", `{"prompt":"hello"}`}, {"sessions/s9/remove", ""}, {"dead/retry", `{"numbers":[1]}`}, {"calls/cancel", `{"all":true}`},
	} {
		if status, body := page.ask("POST", "/api/"+c.path, c.body); status != http.StatusOK {
			t.Errorf("POST %s: %d %s", c.path, status, body)
		}
	}
	page.nothingDenied()
}

// The role "readonly" suffices for everything that the read-only page shows.
func TestReadOnlyPageWithTheReadOnlyRole(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	s := startTenants(t, "--ask", "write_file")
	page := s.page("red-readonly", "--console-read-only")
	page.shows()
	for _, path := range []string{"calls/s1/long/cancel", "approvals/s1/ask", "sessions/s2/messages", "sessions/s9/remove", "dead/retry", "calls/cancel"} {
		if status, body := page.ask("POST", "/api/"+path, `{}`); status != http.StatusForbidden {
			t.Errorf("POST %s: %d %s", path, status, body)
		}
	}
	page.nothingDenied()
}

// rolePage is the page of the tenant red that a user of one role serves.
type rolePage struct {
	t           *testing.T
	p           *process
	host, token string
}

// page submits a call that ends, one that waits, one that asks for an approval and one
// that becomes a dead letter, and starts the page.
func (s tenants) page(user string, flags ...string) rolePage {
	s.t.Helper()
	operator := s.connect("red-operator")
	operator.publish("stevedore.call.default.read_file.s1.c1", `{"args":{"path":"secret.txt"}}`)
	operator.publish("stevedore.call.later.read_file.s1.long", `{"args":{"path":"secret.txt"}}`) // waits
	operator.publish("stevedore.call.default.write_file.s1.ask", `{"args":{"path":"x","content":"x"}}`)
	operator.publish("stevedore.call.default.broken", `{`) // a dead letter
	operator.publish("stevedore.session.s9", `{"kind":"end","run":"r","end":{"reason":"done"}}`)
	p := start(s.t, append([]string{"console", "--server", s.url, "--nkey", s.key(user), "--console", "127.0.0.1:0", "--json"}, flags...)...)
	var first struct{ Console string }
	if err := json.Unmarshal([]byte(p.first), &first); err != nil {
		s.t.Fatal(err)
	}
	address, err := url.Parse(first.Console)
	if err != nil {
		s.t.Fatal(err)
	}
	return rolePage{s.t, p, address.Host, address.Query().Get("token")}
}

func (p rolePage) ask(method, path, body string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequest(method, "http://"+p.host+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	if path == "/api/events" {
		return resp.StatusCode, ""
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// shows checks that each view is complete.
func (p rolePage) shows() {
	p.t.Helper()
	for path, want := range map[string]string{"dead": "broken", "approvals": `"ask"`, "waiting": `"long"`, "status": `"workers":[{"name"`, "calls": `"c1"`} {
		status, last := 0, ""
		for deadline := time.Now().Add(testTimeout); !strings.Contains(last, want); time.Sleep(20 * time.Millisecond) {
			if status, last = p.ask("GET", "/api/"+path, ""); time.Now().After(deadline) {
				p.t.Errorf("GET %s shows no %s: %d %s", path, want, status, last)
				break
			}
		}
	}
	for _, path := range []string{
		"state", "status", "running", "waiting", "calls", "calls/s1/c1", "sessions", "approvals", "artifacts/s1", "schedules", "dead", "dead/1", "usage?by=tool", "events",
	} {
		if status, body := p.ask("GET", "/api/"+path, ""); status != http.StatusOK || strings.Contains(body, `"errors"`) {
			p.t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
}

func (p rolePage) nothingDenied() {
	p.t.Helper()
	if log := p.p.stderr.String(); strings.Contains(log, "ermissions Violation") {
		p.t.Errorf("the permissions do not suffice: %s", log)
	}
}
