package notify

import (
	"fmt"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
)

// Junk in the place of reports is dropped: as dead letters, it would push out real ones. Junk in the
// place of a completion, which may be all that is left of a call, is a letter.
func TestForgedReportsAreDropped(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	console := newRecorder()
	start(t, b, Config{Channels: map[string]channel.Channel{"console": console}})
	publish := func(subject, body string) {
		t.Helper()
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, junk := range []string{"", "junk", "[]", `{"id":"other","for_user":"forged"}`, `{"outcome":"invented","for_user":"forged"}`} {
		publish(b.Report("s", fmt.Sprint("c", i)), junk)
	}
	if _, err := b.JetStream().Publish(t.Context(), b.Report("s$", "c"), []byte(`{"for_user":"of no session"}`)); err != nil {
		t.Fatal(err)
	}
	publish(b.Completion("s", "c9"), "junk")
	publish(b.Report("s", "good"), `{"id":"good","for_user":"hello"}`)
	if got := console.next(t); got.Text != "hello" {
		t.Errorf("got %+v", got)
	}
	bustest.WaitUntil(t, "all messages to be handled", func() bool {
		info, ok, err := b.ConsumerInfo(t.Context(), b.NotifierConsumer())
		return err == nil && ok && info.NumPending == 0 && info.NumAckPending == 0
	})
	var letters []string
	for m, err := range b.Read(t.Context(), bus.Dead, bus.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, m.Subject)
	}
	if len(console.got) > 0 {
		t.Errorf("got %+v too", console.next(t))
	}
	if len(letters) != 1 || letters[0] != b.Dead(bus.DeadResult, "c9") {
		t.Errorf("dead letters %q", letters)
	}
}
