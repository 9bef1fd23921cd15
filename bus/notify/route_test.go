package notify

import (
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

func TestSend(t *testing.T) {
	b := bustest.New(t)
	console, chat := newRecorder(), newRecorder()
	cfg := Config{
		Channels:     map[string]channel.Channel{"console": console, "chat": chat},
		LastChannels: lastChannels{"s1": {"chat", "42"}, "": {"chat", "7"}},
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
