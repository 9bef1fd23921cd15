package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

// retry --all removes the results of many calls before it publishes them: otherwise the
// results of the calls that run wait behind each removal. A call that has another result is
// not published, its letter stays, and the others go on.
func TestRetryAllPreparesLettersBeforeItPublishes(t *testing.T) {
	srv := bustest.Listen(t)
	b := bustest.Connect(t, srv, bus.Config{Log: bustest.Log(t)})
	put := func(subject string, body []byte) {
		t.Helper()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	const count = 60
	for i := range count {
		id, outcome := fmt.Sprintf("c%d", i), `"failed","is_error":true,"error":{"code":"given_up","message":"x"}`
		if i == 7 {
			outcome = `"completed"`
		}
		put(b.Result("s", id), fmt.Appendf(nil, `{"id":%q,"session":"s","outcome":%s}`, id, outcome))
		letter, err := bus.Encode(dead.Letter{
			Kind: bus.DeadCall, Name: "echo", Code: consume.CodePoison, ID: id, Sequence: uint64(i + 1), At: time.Now(),
			Subject: b.Call("default", "echo", "s", id), Body: fmt.Appendf(nil, `{"id":%q,"session":"s","tool":"echo"}`, id),
		})
		if err != nil {
			t.Fatal(err)
		}
		put(b.Dead(bus.DeadCall, "echo"), letter)
	}

	requests := bustest.Subscribe(t, b, ">")
	var stdout, stderr strings.Builder
	exit := run(t.Context(), []string{"dead", "retry", "--all", "--server", srv.URL(), "--log-level", "off"}, strings.NewReader(""), &stdout, &stderr)
	if n := strings.Count(stdout.String(), "retried "); exit != 1 || n != count-1 || strings.Count(stderr.String(), "the call has another result (completed)") != 1 {
		t.Errorf("exit %d, %d retried, %q", exit, n, stderr.String())
	}
	if calls, letters := bustest.Waiting(t, b), bustest.Messages(t, b, bus.Dead); calls != count-1 || letters != 1 {
		t.Errorf("%d calls and %d letters", calls, letters)
	}
	removed, published := 0, 0
	for published < count-1 {
		m, err := requests.NextMsg(bustest.Timeout)
		if err != nil {
			t.Fatalf("after %d calls: %v", published, err)
		}
		switch {
		case m.Subject == "$JS.API.STREAM.MSG.DELETE."+b.StreamName(bus.Results):
			removed++
		case strings.HasPrefix(m.Subject, "stevedore.call."):
			published++
		}
		if published > 0 && removed < count-1 {
			t.Fatalf("a call was published after %d removals", removed)
		}
	}
	stdout.Reset()
	stderr.Reset()
	args := []string{"dead", "rm", "8", "8", "--server", srv.URL(), "--log-level", "off"}
	if exit := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); exit != 0 ||
		stdout.String() != "removed 8: call echo\n" {
		t.Errorf("a letter that is given twice: exit %d, %q, %q", exit, stdout.String(), stderr.String())
	}
	letter, err := bus.Encode(dead.Letter{Subject: b.Call("default", "echo", "s", "large"), Reason: "why", BodySequence: 8})
	if err != nil {
		t.Fatal(err)
	}
	put(b.Dead(bus.DeadCall, "echo"), letter)
	args = []string{"dead", "show", fmt.Sprint(count + 1), "--server", srv.URL(), "--log-level", "off"}
	if exit := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); exit != 5 || !strings.Contains(stdout.String(), `"reason": "why"`) ||
		!strings.Contains(stderr.String(), "its message is not stored any more") {
		t.Errorf("a letter without its message: exit %d, %q, %q", exit, stdout.String(), stderr.String())
	}
}
