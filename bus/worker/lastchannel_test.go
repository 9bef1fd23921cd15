package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

func openState(t *testing.T) (store *state.File, dir string) {
	t.Helper()
	dir = t.TempDir()
	store, err := state.OpenFile(filepath.Join(dir, "state.json"), state.FileConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return store, dir
}

func lastChannel(t *testing.T, store state.Store, session string) string {
	t.Helper()
	c, err := state.LastChannel(t.Context(), store, session)
	if err != nil {
		t.Fatal(err)
	}
	return c.String()
}

// Later results of a session without a channel go to the channel of its last call.
// The worker records it before it publishes the result of the call.
func TestRecordLastChannel(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		store, _ := openState(t)
		var runs atomic.Int64
		start(t, b, worker.Config{State: store}, echo(t, "echo", tools.Idempotent, &runs, nil))
		console, telegram := make(testChannel, 100), make(testChannel, 100)
		startNotifier(t, b, notify.Config{Channels: map[string]channel.Channel{"console": console, "telegram": telegram}, Facts: store})
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		call := func(id, fields string) {
			t.Helper()
			submit(t, b, "stevedore.call.default.echo", `{"id":"`+id+`","args":{"text":"`+id+`"}`+fields+`}`)
			bustest.Next[tools.ResultEvent](t, results)
		}
		call("a", `,"session":"s","channel":"telegram","chat_id":"42:7"`)
		for _, session := range []string{"s", ""} {
			if got := lastChannel(t, store, session); got != "telegram:42:7" {
				t.Errorf("the last channel of %q is %q", session, got)
			}
		}
		if got := lastChannel(t, store, "other"); got != "" {
			t.Errorf("the last channel of another session is %q", got)
		}

		// None of these calls is from a user, and the last channel is unchanged.
		before, err := store.Get(t.Context(), "last_channel.s")
		if err != nil {
			t.Fatal(err)
		}
		for id, fields := range map[string]string{
			"b": `,"session":"s"`,
			"c": `,"session":"s","channel":"last"`,
			"d": `,"session":"s","channel":"console","action":"agent"`,
			"e": `,"session":"s","channel":"console","action":"cron"`,
			"f": `,"session":"s","channel":"console","action":"heartbeat"`,
			"g": `,"session":"s","channel":"a:b"`,
			"h": `,"session":"s","channel":"console","tool":"other"`,
			"i": `,"session":"s","channel":"telegram","chat_id":"42:7"`,
			"k": `,"session":"s","channel":"typo"`, // a channel without a consumer
		} {
			call(id, fields)
		}
		if after, err := store.Get(t.Context(), "last_channel.s"); err != nil || after != before {
			t.Errorf("before %+v, after %+v, %v", before, after, err)
		}
		for notified := map[string]bool{}; !notified["a"] || !notified["b"]; { // in any order
			notified[telegram.next(t).Call] = true
		}
		call("j", `,"session":"s","channel":"console"`)
		if got := lastChannel(t, store, "s"); got != "console" {
			t.Errorf("the last channel is %q", got)
		}
	})
}

// A call cannot take a chat from another session, nor the last channel of all sessions, but
// the session of the messages in a chat can.
func TestChatsStayWithTheirSession(t *testing.T) {
	b := bustest.New(t)
	store, _ := openState(t)
	for _, name := range []string{"log", "hook"} {
		bustest.Consumers(t, b, b.ChannelConsumer(name))
	}
	var runs atomic.Int64
	start(t, b, worker.Config{State: store}, echo(t, "echo", tools.Idempotent, &runs, nil))
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	for i, step := range []struct{ session, channel, chat, owner, ofAll string }{
		{"s2", "log", "7", "s2", "log:7"},
		{"s1", "log", "7", "s2", "log:7"},
		{"s1", "hook", "1", "s1", "log:7"},
		{"hook-1", "hook", "1", "hook-1", "hook:1"},
		{"s1", "hook", "1", "hook-1", "hook:1"},
	} {
		submit(t, b, "stevedore.call.default.echo", fmt.Sprintf(`{"id":"c%d","session":%q,"channel":%q,"chat_id":%q,"args":{"text":"x"}}`, i, step.session, step.channel, step.chat))
		bustest.Next[tools.ResultEvent](t, results)
		owner, err := state.LastSession(t.Context(), store, state.Channel{Name: step.channel, ChatID: step.chat})
		if err != nil || owner != step.owner || lastChannel(t, store, "") != step.ofAll {
			t.Errorf("%+v: owner %q, last channel %q, %v", step, owner, lastChannel(t, store, ""), err)
		}
	}
}

// A redelivered call does not replace a channel that was recorded since.
func TestRedeliveryDoesNotRecordItsChannel(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		store, _ := openState(t)
		submit(t, b, "stevedore.call.default.echo.default.a", `{"id":"a","channel":"old","args":{"text":"x"}}`)
		bustest.Fail(t, b, "default", 1)
		bustest.Consumers(t, b, b.ChannelConsumer("old"))
		time.Sleep(time.Second)
		if err := state.SetLastChannel(t.Context(), store, "default", state.Channel{Name: "new"}, true); err != nil {
			t.Fatal(err)
		}
		var runs atomic.Int64
		start(t, b, worker.Config{State: store}, echo(t, "echo", tools.Idempotent, &runs, nil))
		waitEmpty(t, b)
		if got := lastChannel(t, store, "default"); got != "new" || runs.Load() != 1 {
			t.Errorf("the last channel is %q after %d runs", got, runs.Load())
		}
	})
}

// A call gets its result even if the state store fails.
func TestLastChannelCannotBeRecorded(t *testing.T) {
	b := bustest.New(t)
	store, dir := openState(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	start(t, b, worker.Config{State: store}, echo(t, "echo", tools.Idempotent, &runs, nil))
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, "stevedore.call.default.echo", `{"id":"a","channel":"telegram","args":{"text":"x"}}`)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Completed {
		t.Errorf("result %+v", got)
	}
}
