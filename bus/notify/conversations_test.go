package notify

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/tools"
)

var errConversations = errors.New("the conversations are down")

// brokenConversations take no completions, and all messages.
type brokenConversations struct{}

func (brokenConversations) Completed(context.Context, string, string, tools.ResultEvent) error {
	return errConversations
}

func (brokenConversations) Received(context.Context, channel.Notification, string) error { return nil }

// A completion that cannot be added to its conversation is retried for an hour. The user is
// notified anyway, once.
func TestCompletionForBrokenConversations(t *testing.T) {
	b := bustest.New(t)
	n, err := New(b, Config{Channels: map[string]channel.Channel{"console": newRecorder()}, Conversations: brokenConversations{}, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	for age, want := range map[time.Duration]error{0: errConversations, conversationTimeout / 2: errConversations, conversationTimeout + time.Minute: nil} {
		d := &consume.Delivery{Subject: b.Completion("s", "c"), Body: []byte(`{"action":"agent","for_user":"the report"}`), Published: time.Now().Add(-age)}
		if err := n.route(t.Context(), d); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("after %s: %v, want %v", age, err, want)
		}
	}
	if got := bustest.Messages(t, b, bus.Outbox); got != 1 {
		t.Errorf("%d notifications in the outbox", got)
	}
}

// seen remembers the ids of messages.
type seen struct{ ids map[string]bool }

func (seen) Completed(context.Context, string, string, tools.ResultEvent) error { return nil }

func (s seen) Received(_ context.Context, n channel.Notification, _ string) error {
	s.ids[n.ID] = true
	return nil
}

// What a bridge shows is in the conversation of its chat, also without an id, and a blank text is no notification.
func TestBridgedNotificationsWithoutID(t *testing.T) {
	s := seen{map[string]bool{}}
	n, err := New(bustest.New(t), Config{Channels: map[string]channel.Channel{"console": newRecorder()}, Conversations: s, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	bridge, err := channel.NewBridge("C1", "", "")
	if err != nil {
		t.Fatal(err)
	}
	for body, ids := range map[string]int{`{"text":"the build failed"}`: 1, `{"text":"the test failed"}`: 1, `{"text":" "}`: 0} {
		before := len(s.ids)
		if _, err := n.Prepare(t.Context(), "team", bridge, "", []byte(body)); (err == nil) != (ids == 1) || len(s.ids) != before+ids {
			t.Errorf("%s: %d ids, %v", body, len(s.ids), err)
		}
	}
}
