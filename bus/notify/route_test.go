package notify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/state"
)

func TestSend(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console, chat := newRecorder(), newRecorder()
	cfg := Config{
		Channels: map[string]channel.Channel{"console": console, "chat": chat},
		Facts:    lastChannels(t, map[string][2]string{"s1": {"chat", "42"}, "": {"chat", "7"}}),
	}
	start(t, b, cfg)
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		message channel.Notification
		on      *recorder
		want    channel.Notification
	}{
		{channel.Notification{ID: "1", Text: "default", Session: "s0"}, console, channel.Notification{Channel: "console"}},
		{channel.Notification{ID: "2", Text: "session's last", Session: "s1"}, chat, channel.Notification{Channel: "chat", ChatID: "42"}},
		{channel.Notification{ID: "3", Text: "anywhere", Channel: "last"}, chat, channel.Notification{Channel: "chat", ChatID: "7"}},
		{channel.Notification{ID: "4", Text: "named", Channel: "chat", ChatID: "9", Session: "s1"}, chat, channel.Notification{Channel: "chat", ChatID: "9"}},
		{channel.Notification{ID: "5", Text: "nobody", Channel: "pager", ChatID: "9"}, console, channel.Notification{Channel: "console", Note: noteOn("pager")}},
	} {
		sent, err := n.Send(t.Context(), tt.message)
		if err != nil || sent.Channel != tt.want.Channel || sent.ChatID != tt.want.ChatID || sent.Note != tt.want.Note {
			t.Errorf("%s: sent %+v, %v; want %+v", tt.message.Text, sent, err, tt.want)
		}
		got := tt.on.next(t)
		if got.Text != tt.message.Text || got.ChatID != tt.want.ChatID || got.Kind != channel.KindMessage || got.ID != tt.message.ID {
			t.Errorf("%s: delivered %+v", tt.message.Text, got)
		}
	}
	for _, bad := range []channel.Notification{{ID: "6", Text: " \n"}, {Text: "x"}} {
		if _, err := n.Send(t.Context(), bad); err == nil {
			t.Errorf("Send(%+v): no error", bad)
		}
	}
}

// The outbox remembers the key of a notification for ten minutes.
func TestSendTwice(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		n, err := New(b, Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "a", "b", "a"} {
			if _, err := n.Send(t.Context(), channel.Notification{ID: id, Text: "x"}); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * time.Minute)
		}
		if got := bustest.Messages(t, b, bus.Outbox); got != 2 {
			t.Errorf("%d messages in the outbox, want 2", got)
		}
	})
}

// The acknowledgement of a message can be lost with the server, which then also forgets its key. If
// the outbox is full when the call runs again, the message is not refused: its user has it.
func TestSendAgainToAFullOutbox(t *testing.T) {
	t.Parallel()
	b, r := bustest.New(t), newRecorder()
	cfg := Config{Default: "notes", Channels: map[string]channel.Channel{"notes": r}}
	start(t, b, cfg)
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	message := channel.Notification{ID: "m1", Session: "s", Channel: "notes", Text: "hello"}
	if _, err := n.Send(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	r.next(t)
	waitAcked(t, b, b.ChannelConsumer("notes"))
	stream, err := b.Stream(t.Context(), bus.Outbox)
	if err != nil {
		t.Fatal(err)
	}
	full := stream.CachedInfo().Config
	full.MaxBytes = 1
	if err := b.JetStream().DeleteStream(t.Context(), full.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().CreateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Send(t.Context(), message); err != nil {
		t.Errorf("the delivered message: %v", err)
	}
	message.ID = "m2"
	if _, err := n.Send(t.Context(), message); !errors.Is(err, bus.ErrFull) {
		t.Errorf("another message: %v", err)
	}
}

// The default channel gets what has no other place. The answer to a call without a channel
// is only for its caller, also if a chat has the name of the console.
func TestDefaultChannelGetsNoAnswersOfOthers(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	phone := newRecorder()
	bot, err := channel.NewTelegram("token", channel.BotConfig{Chat: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for ch, want := range map[channel.Channel]bool{bot: false, channel.NewFile("x"): true, nil: true} {
		n, err := New(b, Config{Channels: map[string]channel.Channel{"console": ch}})
		if err != nil || n.showsAll() != want {
			t.Errorf("a console that is %T shows the results of all: %t, %v", ch, !want, err)
		}
	}
	cfg := Config{Channels: map[string]channel.Channel{"phone": phone}, Default: "phone", Facts: lastChannels(t, map[string][2]string{"s1": {"phone", ""}})}
	start(t, b, cfg)
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.Report("s0", "a"), `{"tool":"agent","for_user":"secret"}`)
	publish(t, b, b.Report("s0", "b"), `{"tool":"shell","for_user":"secret"}`)
	if err := n.SendOutput(t.Context(), channel.Notification{ID: "o", Session: "s0", Call: "a-t1-0", Text: "secret"}); err != nil {
		t.Fatal(err)
	}
	waitAcked(t, b, b.NotifierConsumer())
	for i, event := range []string{
		`{"tool":"agent","for_user":"of a session with a channel","session":"s1"}`, `{"action":"heartbeat","for_user":"of a heartbeat"}`, `{"action":"cron","for_user":"of a job"}`,
	} {
		session := "s0"
		if i == 0 {
			session = "s1"
		}
		publish(t, b, b.Report(session, fmt.Sprint("c", i)), event)
		if got := phone.next(t); !strings.Contains(event, got.Text) {
			t.Errorf("got %q for %s", got.Text, event)
		}
	}
	publish(t, b, b.Completion("s0", "a"), `{"for_user":"of background work"}`)
	if got := phone.next(t); got.Text != "of background work" {
		t.Errorf("got %q", got.Text)
	}
}

// outOfOrder is a state that fails when it is first asked.
type outOfOrder struct {
	state.Store
	asked atomic.Bool
}

func (s *outOfOrder) Get(ctx context.Context, key string) (state.Fact, error) {
	if !s.asked.Swap(true) {
		return state.Fact{}, errors.New("the state is out of order")
	}
	return s.Store.Get(ctx, key)
}

// A result waits until the last channel of its session can be looked up.
func TestStateOutOfOrder(t *testing.T) {
	t.Parallel()
	b, phone := bustest.New(t), newRecorder()
	facts := &outOfOrder{Store: lastChannels(t, map[string][2]string{"s1": {"phone", "42"}})}
	start(t, b, Config{Channels: map[string]channel.Channel{"phone": phone}, Default: "phone", Facts: facts})
	publish(t, b, b.Report("s1", "a"), `{"for_user":"hello"}`)
	if got := phone.next(t); got.ChatID != "42" || !facts.asked.Load() {
		t.Errorf("got %+v", got)
	}
}

// A call names only chats that its session has, or that the operator lists. A last chat to which its channel does not
// send is none.
func TestChatsOfOtherSessions(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	phone, log := newRecorder(), newRecorder()
	listed, err := channel.NewEmail(channel.EmailConfig{Host: "127.0.0.1:1", From: "a@example.com", To: []string{"b@example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Channels: map[string]channel.Channel{"phone": phone, "log": log, "mail": listed}, Default: "phone",
		Facts: lastChannels(t, map[string][2]string{"s1": {"log", "1"}, "s2": {"log", "2"}, "s3": {"mail", "refused@example.com"}}),
	}
	start(t, b, cfg)
	n, err := New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.Report("s1", "a"), `{"for_user":"to s2","channel":"log","chat_id":"2"}`)
	if got := log.next(t); got.ChatID != "1" {
		t.Errorf("the chat of another session got %+v", got)
	}
	publish(t, b, b.Report("s3", "a"), `{"action":"cron","for_user":"of a session whose last chat is refused"}`)
	if got := phone.next(t); got.ChatID != "" || got.Text != "of a session whose last chat is refused" {
		t.Errorf("the default channel got %+v", got)
	}
	// Nor does the output of a tool go to the default channel.
	if err := n.SendOutput(t.Context(), channel.Notification{ID: "o", Session: "s0", Call: "a-t1-0", Channel: "log", ChatID: "2", Text: "secret"}); err != nil {
		t.Fatal(err)
	}
	publish(t, b, b.Completion("s0", "c"), `{"for_user":"of background work"}`)
	if got := phone.next(t); got.Text != "of background work" {
		t.Errorf("got %+v", got)
	}
	for _, test := range []struct {
		session, channel, chat string
		ok                     bool
	}{
		{"s1", "log", "1", true}, {"s1", "log", "2", false}, {"s1", "log", "9", false}, {"s1", "log", "", true},
		{"log-9", "log", "9", true}, {"s1", "mail", "b@example.com", true}, {"s1", "elsewhere", "7", false},
	} {
		if err := n.CheckChat(t.Context(), test.session, test.channel, test.chat); (err == nil) != test.ok {
			t.Errorf("session %s, channel %s, chat %q: %v", test.session, test.channel, test.chat, err)
		}
	}
}
