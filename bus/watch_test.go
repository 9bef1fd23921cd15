package bus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// Watchers of a pattern share a subscription, and each receives the messages of its subject
// until it stops, whatever the others do.
func TestWatch(t *testing.T) {
	b := bustest.New(t)
	before := b.Conn().NumSubscriptions()
	watch := func(subject string) (msgs chan *nats.Msg, stop func()) {
		msgs = make(chan *nats.Msg, 1)
		stop, err := b.Watch("watched.*", subject, msgs)
		if err != nil {
			t.Fatal(err)
		}
		return msgs, stop
	}
	receives := func(msgs chan *nats.Msg, text string) {
		t.Helper()
		select {
		case msg := <-msgs:
			if string(msg.Data) != text {
				t.Errorf("got %q, want %q", msg.Data, text)
			}
		case <-time.After(bustest.Timeout):
			t.Fatalf("%q did not arrive", text)
		}
	}
	send := func(subject, text string) {
		t.Helper()
		if err := b.Conn().Publish(subject, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	first, stopFirst := watch("watched.a")
	second, stopSecond := watch("watched.a")
	other, stopOther := watch("watched.b")
	if n := b.Conn().NumSubscriptions(); n != before+1 {
		t.Errorf("%d subscriptions for three watchers", n-before)
	}
	send("watched.a", "1")
	receives(first, "1")
	receives(second, "1")
	stopFirst()
	send("watched.a", "2")
	send("watched.a", "dropped: the watcher has no room")
	send("watched.b", "3")
	receives(other, "3") // one goroutine passes all on, so the others arrived
	receives(second, "2")
	if len(first) > 0 || len(second) > 0 {
		t.Error("a watcher received more than its messages")
	}
	stopSecond()
	stopOther()
	b.EndUnusedWatches()
	again, stop := watch("watched.a")
	if n := b.Conn().NumSubscriptions(); n != before+1 {
		t.Errorf("%d subscriptions after a tick; want the first one, which lingers", n-before)
	}
	b.EndUnusedWatches()
	b.EndUnusedWatches() // does not end one with a watcher
	send("watched.a", "4")
	receives(again, "4")
	stop()
	b.EndUnusedWatches()
	b.EndUnusedWatches()
	if n := b.Conn().NumSubscriptions(); n != before {
		t.Errorf("%d subscriptions are left", n-before)
	}
}

// A client that asks in a new session each time leaves a limited number of subscriptions.
func TestWatchLimitsLingering(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	before := b.Conn().NumSubscriptions()
	for i := range bus.MaxLingering + 50 {
		subject := fmt.Sprintf("watched.%d.*", i)
		stop, err := b.Watch(subject, subject, make(chan *nats.Msg, 1))
		if err != nil {
			t.Fatal(err)
		}
		stop()
	}
	if n := b.Conn().NumSubscriptions() - before; n > bus.MaxLingering {
		t.Errorf("%d subscriptions are left, want at most %d", n, bus.MaxLingering)
	}
}

// A watch starts as soon as the server answers. A missing bucket is an error at once.
func TestWatchStartsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	direct := bustest.Connect(t, s, bus.Config{})
	p := bustest.NewProxy(t, s)
	b := p.Connect(t)
	if _, err := bus.WatchKeys(t.Context(), b, "missing", ">"); !errors.Is(err, jetstream.ErrBucketNotFound) {
		t.Errorf("a missing bucket: %v", err)
	}
	asked := bustest.Subscribe(t, direct, "$JS.API.STREAM.INFO.KV_"+b.BucketName(bus.TasksBucket))
	p.DropReplies()
	watched := make(chan error, 1)
	go func() {
		watcher, err := bus.WatchKeys(t.Context(), b, bus.TasksBucket, "a.*")
		if err == nil {
			<-watcher.Updates() // all keys are known
			err = watcher.Stop()
		}
		watched <- err
	}()
	for range 2 { // the second one follows an error
		if _, err := asked.NextMsg(bustest.Timeout); err != nil {
			t.Fatal(err)
		}
	}
	p.Heal()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}
