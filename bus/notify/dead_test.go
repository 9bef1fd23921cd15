package notify

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// A dead tick has no result, so its dead letter causes a notification. The dead
// letter of a call causes none. An invalid dead letter causes no other one.
func TestOwnersAreNotifiedOfDeadTicks(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console, log := newRecorder(), newRecorder()
	letter := func(kind, name, subject, body string) {
		publish(t, b, "stevedore.dead."+kind+"."+name, fmt.Sprintf(
			`{"kind":%q,"name":%q,"code":"attempts_exhausted","reason":"delivered 6 times","subject":%q,"id":"x","body":%s}`, kind, name, subject, body))
	}
	publish(t, b, "stevedore.dead.call.x", `{not a letter`)
	letter("call", "x", "stevedore.call.default.x", `"not a call"`)
	letter("call", "shell", "stevedore.call.default.shell", `{"id":"1","session":"s"}`)
	letter("call", "shell", "stevedore.call.default.shell", `{"id":"cron-job-1","session":"alice","action":"cron","channel":"log","chat_id":"7"}`)
	letter("tick", "report", "stevedore.tick.cron.report", `{"tool":"shell","session":"alice","channel":"log","chat_id":"7"}`)
	letter("tick", "main", "stevedore.tick.heartbeat.main", `{"tool":"agent"}`)
	start(t, b, Config{Channels: map[string]channel.Channel{"console": console, "log": log}})

	n := log.next(t)
	if n.Kind != channel.KindDead || n.Session != "alice" || n.ChatID != "7" || !n.IsError ||
		n.Text != "The cron job report did not run: delivered 6 times; see dead letter 5" {
		t.Errorf("got %+v", n)
	}
	if n := console.next(t); !strings.Contains(n.Text, "The heartbeat main did not run") || n.Session != "heartbeat-main" {
		t.Errorf("got %+v", n)
	}
	if n := bustest.Messages(t, b, bus.Dead); n != 6 {
		t.Errorf("%d dead letters, want 6", n)
	}
	if len(console.got)+len(log.got) != 0 {
		t.Error("unexpected notifications")
	}
}

// A message that does not fit into its letter may be there although it cannot be read now: the owner is notified later.
func TestMessageOfADeadTickCannotBeRead(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	random := make([]byte, 785_500)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	publish(t, b, b.Tick(bus.Cron, "report"), `{"tool":"shell","session":"alice","args":{"a":"`+base64.StdEncoding.EncodeToString(random)+`"}}`)
	tick, err := b.Last(t.Context(), bus.Ticks, b.Tick(bus.Cron, "report"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.GiveUp(t.Context(), b, bus.Ticks, tick, 1, "code", errors.New("a reason")); err != nil {
		t.Fatal(err)
	}
	letter, err := b.Last(t.Context(), bus.Dead, b.Dead(bus.DeadTick, "report"))
	if err != nil || !strings.Contains(string(letter.Body), `"body_sequence"`) {
		t.Fatalf("%d bytes of a letter, %v", len(letter.Body), err)
	}
	console := newRecorder()
	n, err := New(b, Config{Channels: map[string]channel.Channel{"console": console}})
	if err != nil {
		t.Fatal(err)
	}
	d := &consume.Delivery{Subject: letter.Subject, Body: letter.Body, Sequence: letter.Sequence, Published: letter.At}
	unanswered, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.routeDead(unanswered, d); err == nil {
		t.Error("the letter counts as handled")
	}
	if err := n.routeDead(t.Context(), d); err != nil || bustest.Messages(t, b, bus.Outbox) != 1 {
		t.Errorf("%d notifications, %v", bustest.Messages(t, b, bus.Outbox), err)
	}
}

// A retry of a dead letter is cut off before it removes the letter. The next retry publishes the notification again
// although its user has it: it is known as a copy.
func TestRetryIsRepeated(t *testing.T) {
	t.Parallel()
	b, chat := bustest.New(t), newRecorder()
	chat.set(consume.Reject("forbidden", errors.New("the bot was blocked")), nil)
	letters := bustest.Subscribe(t, b, "stevedore.dead.>")
	cfg := Config{Default: "chat", Channels: map[string]channel.Channel{"chat": chat}}
	start(t, b, cfg)
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Send(t.Context(), channel.Notification{ID: "m", Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	letter, _ := bustest.Next[dead.Letter](t, letters)
	chat.set(nil, nil)
	for range 3 {
		waitAcked(t, b, b.ChannelConsumer("chat"))
		if err := dead.Republish(t.Context(), b, dead.Stored{Letter: letter}); err != nil {
			t.Fatal(err)
		}
	}
	waitAcked(t, b, b.ChannelConsumer("chat"))
	if got := len(chat.got); got != 1 {
		t.Errorf("the user got it %d times", got)
	}
}
