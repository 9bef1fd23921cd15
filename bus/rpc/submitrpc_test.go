package rpc_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/tools"
)

// rpc.submit answers with the acceptance of a stored call, or with the reason why the call
// is not stored.
func TestSubmitEndpoint(t *testing.T) {
	b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 64 << 10})
	bustest.Run(t, rpc.NewService(b, nil, rpc.ServiceConfig{Log: bustest.Log(t)}).Run)
	request := func(subject, body string) (rpc.Acceptance, string) {
		t.Helper()
		var msg *nats.Msg
		bustest.WaitUntil(t, "the service", func() (ok bool) {
			var err error
			msg, err = b.Conn().Request(b.RPC("submit")+"."+subject, []byte(body), 5*time.Second)
			return err == nil
		})
		var accepted rpc.Acceptance
		if err := json.Unmarshal(msg.Data, &accepted); err != nil {
			t.Fatal(err)
		}
		return accepted, msg.Header.Get("Nats-Service-Error-Code")
	}
	for _, c := range []struct {
		subject, body, code string
		duplicate           bool
	}{
		{"q.x.s.a", `{}`, "", false},
		{"q.x.s.a", `{"id":"a","session":"s","args":{}}`, "", true},
		{"q.x", `{"id":"a","session":"s"}`, "", true},
		{"q.x.s.a", `{"args":{"other":1}}`, tools.CodeMismatch, false},
		{"q.x.s.b", `{"id":"a"}`, tools.CodeInvalidCall, false},
		{"q.x.s.b", `{"session":"victim"}`, tools.CodeInvalidCall, false},
		{"q.x.s.b", `no JSON`, tools.CodeInvalidCall, false},
		{"q.x", `{"tool":"y"}`, tools.CodeInvalidCall, false},
		{"q.x.s.b", `{"args":{"text":"` + strings.Repeat("x", 70<<10) + `"}}`, rpc.CodeFull, false},
	} {
		accepted, code := request(c.subject, c.body)
		if code != c.code || code == "" && (accepted.ID != "a" || accepted.Session != "s" || accepted.Duplicate != c.duplicate || accepted.Sequence != 1) {
			t.Errorf("submit %s %.50s: %+v, code %q; want %q", c.subject, c.body, accepted, code, c.code)
		}
	}
	if n := bustest.Waiting(t, b); n != 1 {
		t.Errorf("%d calls are stored", n)
	}
}

// The service answers only to inboxes: the server lets a client name any reply subject, such
// as that of another session's result.
func TestReplySubjects(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ready := make(chan struct{})
	bustest.Run(t, rpc.NewService(b, nil, rpc.ServiceConfig{OnReady: func() { close(ready) }}).Run)
	<-ready
	inbox := bustest.Subscribe(t, b, "_INBOX_alice.1")
	for _, reply := range []string{b.Result("victim", "1"), b.Stored(b.Result("victim", "1")), b.Call("q", "x", "s", "y"), "$KV.stevedore_state.x", "$JS.API.STREAM.PURGE.X", "elsewhere", "_INBOX_alice.1"} {
		sub := bustest.Subscribe(t, b, reply)
		err := b.Conn().PublishRequest(b.RPC("submit", "q", "x"), reply, []byte(`{"id":"`+tools.Token(reply)+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(reply, "_") {
			defer func() {
				if n, _, _ := sub.Pending(); n != 0 {
					t.Errorf("an answer on %s", reply)
				}
			}()
		}
	}
	if _, err := inbox.NextMsg(bustest.Timeout); err != nil {
		t.Error(err)
	}
	if n := bustest.Waiting(t, b); n != 1 {
		t.Errorf("%d calls are stored, want that of the inbox", n)
	}
}

// A forged message on the subject of a result is not a result.
func TestForgedResults(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c1", Session: "s1", Tool: "echo"}
	answer := submit(t, b, call)
	for _, body := range []string{
		`{"stream":"STEVEDORE_CALLS","seq":1}`, `{"id":"c1","session":"s2","outcome":"completed","for_llm":"forged"}`,
		`{"id":"c2","session":"s1","outcome":"completed","for_llm":"forged"}`, `{"id":"c1","session":"s1","outcome":"","for_llm":"forged"}`,
	} {
		header := nats.Header{"Nats-Subject": {b.Result("s1", "c1")}, "Nats-Sequence": {"1"}}
		if err := b.Conn().PublishMsg(&nats.Msg{Subject: b.Stored(b.Result("s1", "c1")), Data: []byte(body), Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.JetStream().Publish(t.Context(), b.Result("s1", "c1"), result(t, call, "first")); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got.err != nil || got.event.ForLLM != "first" {
		t.Errorf("Submit = %q, %v", got.event.ForLLM, got.err)
	}
}
