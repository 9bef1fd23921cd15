package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/state/kv"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
	"github.com/stevedore-bus/stevedore/tools/agent/provider"
)

// stateOf returns the state of a bus.
func stateOf(b *bus.Bus) state.Store {
	return kv.New(b.API(), func(ctx context.Context) (jetstream.KeyValue, error) { return b.Bucket(ctx, bus.StateBucket) })
}

// startNotifier runs a notifier with a phone that records conversations.
func startNotifier(t *testing.T, b *bus.Bus) (user, state.Store) {
	t.Helper()
	u := user{make(chan channel.Notification, 100)}
	facts := stateOf(b)
	n, err := notify.New(b, notify.Config{
		Channels: map[string]channel.Channel{"console": u, "phone": u}, Facts: facts,
		Conversations: NewConversations(b, facts, nil), Log: bustest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, n.Run)
	return u, facts
}

// lastRequest keeps the text of the last request.
type lastRequest struct {
	agent.Provider
	mu   sync.Mutex
	text string
}

func (r *lastRequest) Complete(ctx context.Context, req agent.Request) (agent.Response, error) {
	r.mu.Lock()
	r.text = ""
	for _, m := range req.Messages {
		r.text += agent.TextOf(m.Content) + "\n"
	}
	r.mu.Unlock()
	return r.Provider.Complete(ctx, req)
}

// notices returns the notices in a conversation.
func notices(t *testing.T, b *bus.Bus, id string) (list []agent.Notice) {
	t.Helper()
	bodies, _, err := session.New(b).Read(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		if e, err := agent.DecodeEntry(body); err == nil && e.Notice != nil {
			list = append(list, *e.Notice)
		}
	}
	return list
}

// A user asks about the background job that the agent started, and about the alert of a
// heartbeat: both are in the conversation, and so is what only the user was sent.
func TestQuestionsAboutBackgroundWork(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	phone, facts := startNotifier(t, b)
	model, err := provider.ParseScript([]byte(strings.Join([]string{
		`{"for":"^start"}`,
		`{"tools":[{"name":"spawn","input":{"task":"child one"}},{"name":"spawn","input":{"task":"child two","delivery":"parent"}},{"name":"spawn","input":{"task":"child three","delivery":"user"}}]}`,
		`{"text":"started"}`,
		`{"text":"It said: report one."}`,
		`{"for":"^child one"}`, `{"text":"report one"}`,
		`{"for":"^child two"}`, `{"text":"report two"}`,
		`{"for":"^child three"}`, `{"text":"report three"}`,
		`{"for":"^check"}`, `{"text":"The disk is full."}`,
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	seen := &lastRequest{Provider: model}
	startModel(t, b, seen, worker.Config{State: facts})

	ask := func(id, text string) tools.ResultEvent {
		t.Helper()
		call := prompt("chat", id, text)
		call.Channel, call.ChatID = "phone", "7"
		event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, call)
		if err != nil {
			t.Fatal(err)
		}
		return event
	}
	if event := ask("q1", "start"); event.ForLLM != "started" {
		t.Fatalf("%+v", event)
	}
	beat := prompt("heartbeat-main", "beat", "check")
	beat.Action, beat.Channel, beat.Args = tools.ActionHeartbeat, tools.LastChannel, json.RawMessage(`{"prompt":"check","fresh":true}`)
	if _, err := rpc.Submit(t.Context(), b, bus.AgentQueue, beat); err != nil {
		t.Fatal(err)
	}
	bustest.WaitUntil(t, "the notices", func() bool { return len(notices(t, b, "chat")) == 4 })
	if event := ask("q2", "what did it say?"); event.ForLLM != "It said: report one." {
		t.Errorf("the follow-up question: %+v", event)
	}
	for _, text := range []string{"report one", "report two", "report three", "The disk is full."} {
		if n := strings.Count(seen.text, text); n != 1 {
			t.Errorf("the model saw %q %d times", text, n)
		}
	}
	got := map[string]bool{}
	for range 5 { // two replies, two reports, one alert
		n := <-phone.got
		got[n.Text] = true
		if n.Channel != "phone" || n.ChatID != "7" {
			t.Errorf("notification for %s:%s", n.Channel, n.ChatID)
		}
	}
	for text, want := range map[string]bool{"started": true, "report one": true, "report two": false, "report three": true, "The disk is full.": true, "It said: report one.": true} {
		if got[text] != want {
			t.Errorf("the user got %q: %v, want %v", text, got[text], want)
		}
	}
	for _, n := range notices(t, b, "chat") {
		if strings.Contains(n.Text, "report three") && !strings.HasPrefix(n.ID, "message.") {
			t.Errorf("the conversation has a completion that is only for the user, who received it: %+v", n)
		}
	}
	// The reply of a run, and a message to a chat without a conversation, add nothing.
	if err := NewConversations(b, facts, nil).Received(context.Background(), channel.Notification{ID: "x", Channel: "phone", ChatID: "8", Session: "other", Text: "hello"}, "8"); err != nil {
		t.Error(err)
	}
	if n := len(notices(t, b, "chat")); n != 4 {
		t.Errorf("%d notices", n)
	}
	// Messages without a call are told each, also one of a text and an id that do not fit.
	for _, n := range []channel.Notification{
		{ID: "monday", Text: "Backup failed."}, {ID: "tuesday", Text: "Backup failed."}, {ID: strings.Repeat("i", 2<<20), Text: strings.Repeat("t", 2<<20)},
	} {
		n.Channel, n.ChatID = "phone", "7"
		if err := NewConversations(b, facts, nil).Received(t.Context(), n, "7"); err != nil {
			t.Error(err)
		}
	}
	if list := notices(t, b, "chat"); len(list) != 7 || list[4].Text != list[5].Text || !strings.Contains(list[6].Text, "t…\n[The rest is not") || len(list[6].Text) > 40_000 {
		t.Errorf("%d notices", len(list))
	}
}

// user keeps the notifications of a channel, in order.
type user struct{ got chan channel.Notification }

func (u user) Send(_ context.Context, n channel.Notification) error {
	u.got <- n
	return nil
}

// The alert of a heartbeat that comes before the first message of its user waits in the
// session in which he will write: that of the console, or that of his chat. Results of other
// calls do not.
func TestAlertBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := NewConversations(b, stateOf(b), []string{"me", "app"})
	for _, n := range []channel.Notification{
		{ID: "7", Call: "run-1", Channel: "console"}, // no user of the console may answer it
		{ID: "1", Call: "heartbeat-main-20260102T150405Z", Channel: "console"},
		{ID: "2", Call: "heartbeat-main-20260102T150405Z-t2-0", Channel: "console", Kind: channel.KindMessage},
		{ID: "3", Call: "cron-x-20260102T150405Z", Channel: "me", ChatID: "42"},
		{ID: "4", Call: "cron-x-20260102T150405Z", Channel: "app", ChatID: "7"},
		{ID: "5", Call: "cron-x-20260102T150405Z", Channel: "app"},
		{ID: "6", Call: "cron-x-20260102T150405Z", Channel: "file"},
		{ID: "8", Call: "heartbeat-main-20260102T150405Z-t2-0-t1-3", Channel: "console", Kind: channel.KindMessage}, // of a sub-agent
	} {
		n.Session, n.Text = "elsewhere", "The disk is full."
		for range 2 {
			if err := c.Received(t.Context(), n, n.ChatID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, want := range map[string]int{ConsoleSession: 3, "me-42": 1, "app-7": 1, "app": 0, "app-": 0, "file": 0} {
		if id == "app-" {
			id = tools.TokenOf(id)
		}
		if got := notices(t, b, id); len(got) != want {
			t.Errorf("session %s has %d notices, want %d", id, len(got), want)
		}
	}
	model, err := provider.ParseScript([]byte(`{"text":"It was full."}`))
	if err != nil {
		t.Fatal(err)
	}
	seen := &lastRequest{Provider: model}
	startModel(t, b, seen, worker.Config{})
	if event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt(ConsoleSession, "q", "what was that?")); err != nil || event.ForLLM != "It was full." {
		t.Fatalf("%+v, %v", event, err)
	}
	if !strings.Contains(seen.text, "The disk is full.") || !strings.Contains(seen.text, "what was that?") {
		t.Errorf("the model saw %q", seen.text)
	}
}

// A channel without chats shows the texts of all sessions; its user answers each in its own. What a
// channel with chats gets without a chat belongs to none of them, and what one process receives, the
// notifiers of all write into the conversation.
func TestTextsOfChannelsWithoutAChat(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	facts := stateOf(b)
	for id, at := range map[string]state.Channel{"reader": {Name: "file"}, "r1": {Name: "hook", ChatID: "r1"}, "console": {Name: "console"}} {
		if err := state.SetLastChannel(t.Context(), facts, id, at, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"mine", "reader", "r1", "console", "heartbeat-main"} {
		if _, err := session.New(b).Append(t.Context(), id, 0, []byte(`{"kind":"end","run":"r"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := state.SetReceives(t.Context(), facts, "app"); err != nil {
		t.Fatal(err)
	}
	c := NewConversations(b, facts, nil)
	for i, n := range []channel.Notification{
		{Channel: "file", Session: "mine"}, {Channel: "file", Session: "heartbeat-main"}, {Channel: "file", Session: "nobody"},
		{Channel: "console", Session: "mine"},
		{Channel: "hook", Session: "nobody"}, // the chat r1 does not get it
		{Channel: "app", Session: "nobody"},
		{Channel: "app", Session: "nobody", ChatID: "new"},
		{Channel: "file", Session: "mine", Call: "cron-mine--tea-20260102T150405Z"},
	} {
		n.ID, n.Text = fmt.Sprint(i), "Buy bread."
		if err := c.Received(t.Context(), n, n.ChatID); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"mine": "0 3 7", "reader": "1 2", "console": "3", "r1": "", "app-new": "6", "heartbeat-main": "", "app": ""} {
		var got []string
		for _, n := range notices(t, b, id) {
			got = append(got, strings.Split(n.ID, ".")[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has %q, want %q", id, got, want)
		}
	}
	if last := notices(t, b, "mine")[2]; !strings.HasSuffix(last.Title, " from the job mine--tea:") {
		t.Errorf("the title of the last one is %q", last.Title)
	}
}
