package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

// A message of a group begins with the name of its author, and its commands still work.
func TestMessagesOfGroups(t *testing.T) {
	for text, want := range map[string][3]string{
		"hello there":            {"", "hello there", "> quoted\n\nAnn: hello there"},
		"/stop":                  {"/stop", "", "> quoted"},
		"/stop@the_bot":          {"/stop", "", "> quoted"},
		"/NEW@the_bot\nan  idea": {"/new", "an  idea", "> quoted\n\nAnn: an  idea"},
		"/stp":                   {"/stp", "", "> quoted"},
		"/":                      {"", "/", "> quoted\n\nAnn: /"},
		"/etc/hosts is empty":    {"", "/etc/hosts is empty", "> quoted\n\nAnn: /etc/hosts is empty"},
		"//stop is a command":    {"", "/stop is a command", "> quoted\n\nAnn: /stop is a command"},
	} {
		m := channel.Incoming{Text: text, From: "Ann\n", Context: "> quoted"}
		command, rest := Command(m.Text)
		if command != want[0] || rest != want[1] || m.Prompt(rest) != want[2] {
			t.Errorf("%q: command %q, rest %q, prompt %q; want %q", text, command, rest, m.Prompt(rest), want)
		}
	}
}

// A message that stops runs may arrive again: it stops no run that began later.
func TestStopIsIdempotent(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	n, err := notify.New(b, notify.Config{})
	if err != nil {
		t.Fatal(err)
	}
	in := NewInbox(b, n, nil, "me", nil, bustest.Log(t))
	accept := func(id, text string) {
		t.Helper()
		if _, err := in.Accept(t.Context(), channel.Incoming{ID: id, ChatID: "42", Text: text, From: "Ann"}); err != nil {
			t.Fatal(err)
		}
	}
	state := func(id string) task.State {
		t.Helper()
		got, err := task.Get(t.Context(), b, "me-42", "message-"+id)
		if err != nil {
			t.Fatal(err)
		}
		return got.State
	}
	accept("1", "first")
	accept("2", "/stop@the_bot")
	accept("3", "second")
	accept("2", "/stop@the_bot")
	if first, second := state("1"), state("3"); first != task.Cancelled || second != task.Queued {
		t.Errorf("the first run is %s, the second one %s", first, second)
	}
}

// If the calls of a session are too many to look at all, or to list all, the reply says that a run may go on.
func TestStopBehindManyCalls(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{4000, 500} {
		b := bustest.New(t)
		n, err := notify.New(b, notify.Config{Default: "me"})
		if err != nil {
			t.Fatal(err)
		}
		in := NewInbox(b, n, nil, "me", nil, bustest.Log(t))
		accept := func(id, text string) {
			if _, err := in.Accept(t.Context(), channel.Incoming{ID: id, ChatID: "42", Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		if calls > 500 {
			accept("1", "work")
		}
		for i := range calls {
			if _, err := b.JetStream().PublishAsync(b.Call("default", "x", "me-42", fmt.Sprint("c", i)), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		<-b.JetStream().PublishAsyncComplete()
		if calls <= 500 { // the last of those that wait
			accept("1", "work")
		}
		accept("2", "/stop")
		replies := ""
		for m, err := range b.Read(t.Context(), bus.Outbox, bus.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			replies += string(m.Body)
		}
		if !strings.Contains(replies, "A run may go on") {
			t.Errorf("behind %d calls, the reply is %s", calls, replies)
		}
	}
}

// A yes or no in a chat answers the oldest question that is shown there, and only once if it arrives again. Without
// a question it is an ordinary message, and misspelt commands never reach the agent.
func TestAnswersInAChat(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	facts := stateOf(b)
	n, err := notify.New(b, notify.Config{Default: "hook", Channels: map[string]channel.Channel{"hook": newBridge(t, "42", "43", "")}, Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	in := NewInbox(b, n, nil, "hook", nil, bustest.Log(t))
	accept := func(id, text string) channel.Accepted {
		t.Helper()
		got, err := in.Accept(t.Context(), channel.Incoming{ID: id, ChatID: "42", Text: text})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	park := func(call tools.Call, at time.Time) {
		t.Helper()
		call.Tool, call.Args = "shell", []byte("{}")
		if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: bus.DefaultQueue, State: task.InputRequired, Since: at, Until: at.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(id, chat string, at time.Time) {
		t.Helper()
		park(tools.Call{ID: id, Session: "hook-" + chat, Channel: "hook", ChatID: chat}, at)
	}
	open := func() (ids []string) {
		t.Helper()
		waiting, err := approvals.List(t.Context(), b, "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range waiting {
			ids = append(ids, a.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if accept("1", "yes").ID == "" {
		t.Error("a yes without a question is no message")
	}
	now := time.Now()
	ask("other", "43", now.Add(-time.Hour))
	ask("second", "42", now)
	ask("first", "42", now.Add(-time.Minute))
	for range 2 {
		if accept("2", "Yes!").ID != "" {
			t.Error("an answer became a message")
		}
	}
	replies := []string{}
	for m, err := range b.Read(t.Context(), bus.Outbox, bus.Query{Subject: b.Notify("hook", "42")}) {
		var reply channel.Notification
		if err = cmp.Or(err, json.Unmarshal(m.Body, &reply)); err != nil {
			t.Fatal(err)
		}
		replies = append(replies, reply.Text)
	}
	if !slices.Equal(replies, []string{"✅ Approved: shell runs."}) {
		t.Errorf("the replies to an answer that arrived twice: %q", replies)
	}
	if got := open(); !slices.Equal(got, []string{"other", "second"}) {
		t.Errorf("after one answer, %q wait", got)
	}
	if accept("3", "no").ID != "" || !slices.Equal(open(), []string{"other"}) {
		t.Errorf("after two answers, %q wait", open())
	}
	if err := state.SetLastChannel(t.Context(), facts, "elsewhere", state.Channel{Name: "hook", ChatID: "43"}, false); err != nil {
		t.Fatal(err)
	}
	park(tools.Call{ID: "elsewhere", Session: "elsewhere"}, now)
	for id, call := range map[string]tools.Call{ // of a job, with and without a channel, and of one whose channel is gone
		"10": {ID: "job", Session: "cron-x"}, "11": {ID: "named", Session: "cron-x", Channel: "hook"},
		"12": {ID: "gone", Session: "cron-x", Channel: "gone", ChatID: "7"},
	} {
		park(call, now)
		if accept(id, "no,\nnot now").ID != "" || !slices.Equal(open(), []string{"elsewhere", "other"}) {
			t.Errorf("after the answer to %s, %q wait", call.ID, open())
		}
	}
	if accept("13", "yes").ID == "" {
		t.Error("a yes to a question of another chat is no message")
	}
	quoted := channel.Incoming{ID: "14", ChatID: "43", Text: "yes", Context: "> quoted"}
	if got, err := in.Accept(t.Context(), quoted); err != nil || got.ID == "" || !slices.Equal(open(), []string{"elsewhere", "other"}) {
		t.Errorf("a yes to another message is no message: %v, %q wait", err, open())
	}
	with := channel.Incoming{ID: "15", ChatID: "43", Text: "yes", Files: []channel.Attachment{{Name: "a.txt"}}}
	if got, err := in.Accept(t.Context(), with); err != nil || got.ID != "" || !slices.Equal(open(), []string{"elsewhere"}) {
		t.Errorf("a yes with a file: %+v, %v, %q wait", got, err, open())
	}
	if reply, err := b.Last(t.Context(), bus.Outbox, b.Notify("hook", "43")); err != nil || !strings.Contains(string(reply.Body), "did not get the file") {
		t.Errorf("the reply to a message with a file: %s, %v", reply.Body, err)
	}
	for id, text := range map[string]string{"4": "/help", "5": "/hlep me", "6": "/new"} {
		if accept(id, text).ID != "" {
			t.Errorf("%s became a message", text)
		}
	}
}

// A question without a chat is for all recipients of mails, and for the only chat of a webhook. A channel with chats, of
// which none is the default, does not show it, and nobody knows in which of several a webhook does, so that a yes there
// answers something else.
func TestAnswerToAQuestionWithoutAChat(t *testing.T) {
	t.Parallel()
	mail, err := channel.NewEmail(channel.EmailConfig{Host: "127.0.0.1:25", From: "me@x.example", To: []string{"a@x.example", "b@x.example"}, TLS: "none"})
	if err != nil {
		t.Fatal(err)
	}
	hook := func(allow string) channel.Channel {
		hook, err := channel.NewWebhook("http://127.0.0.1:1", "", allow)
		if err != nil {
			t.Fatal(err)
		}
		return hook
	}
	for chat, test := range map[string]struct {
		channel.Channel
		want bool
	}{
		"42": {newBridge(t, "", "42;43", ""), false}, "a@x.example": {mail, true}, "only": {hook("only;*"), true}, "one": {hook("one;other"), false},
	} {
		ch := test.Channel
		b := bustest.New(t)
		n, err := notify.New(b, notify.Config{Default: "hook", Channels: map[string]channel.Channel{"hook": ch}})
		if err != nil {
			t.Fatal(err)
		}
		call := tools.Call{ID: "job", Session: "cron-x", Tool: "shell", Args: []byte("{}")}
		p := task.Parked{Call: call, Queue: bus.DefaultQueue, State: task.InputRequired, Until: time.Now().Add(time.Hour)}
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
		got, err := NewInbox(b, n, nil, "hook", ch, bustest.Log(t)).Accept(t.Context(), channel.Incoming{ID: "1", ChatID: chat, Text: "yes"})
		if answers := got.ID == ""; err != nil || answers != test.want {
			t.Errorf("a yes of %s answers the question: %t, %v", chat, answers, err)
		}
	}
}

// A message with the id of a parked call is accepted only if it is the same.
func TestMessageWithTheIDOfAParkedCall(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := prompt("me-42", "message-1", "go")
	if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: bus.AgentQueue, State: task.Waiting, Since: time.Now(), Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if accepted, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, call); !accepted.Duplicate || err != nil {
		t.Errorf("the same message: %+v, %v", accepted, err)
	}
	if _, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt("me-42", "message-1", "other")); tools.CodeOf(err) != tools.CodeMismatch {
		t.Errorf("another message: %v", err)
	}
	if n := bustest.Waiting(t, b); n != 0 {
		t.Errorf("%d calls are stored", n)
	}
	if _, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt("me-42", "message-2", "other")); err != nil {
		t.Error(err)
	}
}
