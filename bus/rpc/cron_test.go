package rpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// A client manages the cron jobs of the session in the subject, and of no other.
func TestCronEndpoint(t *testing.T) {
	t.Parallel()
	b := start(t)
	ask := func(session, function, body string) (string, error) {
		t.Helper()
		answer, err := rpc.Request(t.Context(), b, b.RPC("cron", session, function), json.RawMessage(body))
		return string(answer), err
	}
	answer, err := ask("s1", "add", `{"name":"report","cron":"30 9 * * 1-5","tool":"big"}`)
	if err != nil || !strings.Contains(answer, `"text":"Cron job added: report`) || !strings.Contains(answer, `"upcoming":["2`) {
		t.Errorf("add: %s, %v", answer, err)
	}
	if answer, err = ask("s1", "list", `{}`); err != nil || !strings.Contains(answer, `"name":"report"`) || !strings.Contains(answer, `"session":"s1"`) {
		t.Errorf("list: %s, %v", answer, err)
	}
	if answer, err = ask("s2", "list", `{}`); err != nil || !strings.Contains(answer, `"jobs":[]`) {
		t.Errorf("empty list: %s, %v", answer, err)
	}
	for _, test := range []struct{ session, function, body, code string }{
		{"s2", "get", `{"name":"report"}`, tools.CodeNotFound},
		{"s2", "remove", `{"name":"report"}`, tools.CodeNotFound},
		{"s2", "get", `{"name":"report","session":"s1"}`, tools.CodeInvalidArguments},
		{"s1", "explode", `{}`, rpc.CodeUnknown},
		{"s1", "list", `[]`, tools.CodeInvalidArguments},
		{"s1", "add", `{"name":"x","every":"1h"}`, tools.CodeInvalidArguments},
		{"s1", "add", `{"name":"x","every":"1h","tool":"big","arguments":{}}`, tools.CodeInvalidArguments},
	} {
		if answer, err := ask(test.session, test.function, test.body); tools.CodeOf(err) != test.code {
			t.Errorf("%+v: %s, %v", test, answer, err)
		}
	}

	// If a session is not a token, the subject has its hash. Its jobs run in the
	// session itself.
	const session = "telegram:7"
	hash := tools.Token(session)
	if _, err := ask(hash, "add", `{"name":"tea","every":"1h","tool":"big"}`); tools.CodeOf(err) != tools.CodeInvalidArguments {
		t.Errorf("add with the hash only: %v", err)
	}
	if _, err := ask(hash, "add", `{"name":"tea","every":"1h","tool":"big","session":"telegram:7"}`); err != nil {
		t.Error(err)
	}
	if _, err := ask(hash, "disable", `{"name":"tea"}`); err != nil {
		t.Error(err)
	}
	e, err := cron.New(b).Get(t.Context(), cron.Caller{Session: session}, "tea")
	if err != nil || e.Session != session || !e.Disabled || e.Every != time.Hour {
		t.Errorf("job %+v, %v", e, err)
	}
}

// A list has at most 500 jobs, so that it fits into a message, and names the next page.
func TestCronListPages(t *testing.T) {
	t.Parallel()
	b := start(t)
	for i := range 501 {
		body := fmt.Appendf(nil, `{"name":"j%03d","session":"many","tool":"big"}`, i)
		if _, err := b.JetStream().PublishAsync(b.Schedule(bus.Cron, fmt.Sprintf("many--j%03d", i)), body, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-b.JetStream().PublishAsyncComplete()
	for after, want := range map[string]int{"": 500, "many--j499": 1} {
		body, err := rpc.Request(t.Context(), b, b.RPC("cron", "many", "list"), json.RawMessage(fmt.Sprintf(`{"limit":%d,"after":%q}`, 1000*len(after), after)))
		var answer cron.Answer
		if err := errors.Join(err, json.Unmarshal(body, &answer)); err != nil {
			t.Fatal(err)
		}
		if len(answer.Jobs) != want || (answer.Next == "many--j499") != (after == "") {
			t.Errorf("after %q: %d jobs, next %q", after, len(answer.Jobs), answer.Next)
		}
	}
}
