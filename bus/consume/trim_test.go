package consume_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

func work(t *testing.T, b *bus.Bus, queue string, handler consume.Handler) (stop func()) {
	t.Helper()
	return bustest.Run(t, func(ctx context.Context) error {
		return consume.Run(ctx, b, b.WorkerConsumer(queue), consume.Config{Grace: time.Second, ShouldRetry: notStarted}, handler)
	})
}

func sendCalls(t *testing.T, b *bus.Bus, queue string, n int) {
	t.Helper()
	for i := range n {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call(queue, "x", "s", fmt.Sprint(queue, i)), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
}

// Settled calls leave the stream, although calls of a queue without a consumer are among
// them, and those stay. So do the ones of a process that died before it removed them.
func TestTrimBesideAnUnservedQueue(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		sendCalls(t, b, "unserved", 10)
		sendCalls(t, b, "served", 100)
		sendCalls(t, b, "unserved2", 10)
		stop := work(t, b, "served", func(context.Context, *consume.Delivery) error { return nil })
		bustest.WaitUntil(t, "the settled calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 20 })
		stop()

		// A process acknowledges and dies.
		sendCalls(t, b, "served", 100)
		cons, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Calls), b.WorkerConsumer("served").Name)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := cons.Fetch(100)
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := bustest.Messages(t, b, bus.Calls); n != 120 {
			t.Fatalf("%d calls", n)
		}
		work(t, b, "served", func(context.Context, *consume.Delivery) error {
			t.Error("a settled call was delivered again")
			return nil
		})
		bustest.WaitUntil(t, "the settled calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 20 })
	})
}

// While a call runs for long, the calls that ended before and behind it leave the stream.
// The call itself stays.
func TestTrimBehindALongCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		if testing.Short() {
			t.Skip("publishes 3,000 calls, which takes long under the race detector")
		}
		b := bustest.New(t)
		running := make(chan struct{})
		release := sync.OnceFunc(func() { close(running) })
		work(t, b, "q", func(_ context.Context, d *consume.Delivery) error {
			if d.Subject == b.Call("q", "x", "s", "q1") {
				<-running
			}
			return nil
		})
		t.Cleanup(release)
		sendCalls(t, b, "q", 3000)
		bustest.WaitUntil(t, "the calls behind the running one to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) < 600 })
		bustest.WaitUntil(t, "the call before the running one to be removed", func() bool {
			_, ok, err := bustest.Message(b.Last(t.Context(), bus.Calls, b.Call("q", "x", "s", "q0")))
			return !ok && err == nil
		})
		if _, ok, err := bustest.Message(b.Last(t.Context(), bus.Calls, b.Call("q", "x", "s", "q1"))); !ok || err != nil {
			t.Errorf("the running call is stored: %v, %v", ok, err)
		}
		release()
		bustest.WaitUntil(t, "all calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
	})
}

// Messages that are requeued while others are removed are delivered again immediately,
// and not when their leases end.
func TestTrimKeepsRequeuedMessages(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Lease: time.Hour})
	const n = 400
	begin := time.Now()
	work(t, b, "q", func(_ context.Context, d *consume.Delivery) error {
		if time.Since(begin) < time.Duration(d.Sequence)*3*time.Millisecond { // so there are purges meanwhile
			return consume.RetryAfter(0, nil)
		}
		return nil
	})
	sendCalls(t, b, "q", n)
	bustest.WaitUntil(t, "all calls to be settled", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
}

// Of many processes that consume a queue, about one removes the settled calls at a time.
func TestOneOfManyTrims(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{})
		var purges atomic.Int64
		if _, err := b.Conn().Subscribe("stevedore.rpc.trimmed.>", func(*nats.Msg) { purges.Add(1) }); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			c := bustest.Connect(t, s, bus.Config{})
			work(t, c, "q", func(context.Context, *consume.Delivery) error { return nil })
		}
		begin := time.Now()
		for i := 0; time.Since(begin) < 3*time.Second; i++ {
			if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("q", "x", "s", fmt.Sprint("c", i)), Body: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		bustest.WaitUntil(t, "all calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
		// Without turns it would be 10 times 4 each second.
		if n, took := purges.Load(), time.Since(begin); float64(n) > 12*took.Seconds() {
			t.Errorf("%d purges in %s", n, took)
		}
	})
}

// While somebody lets the consumer of a queue deliver only some of its messages, the others stay, also when they have taken that
// back, and a process that starts handles them. The process notices it whether or not the consumer delivers others.
func TestTrimKeepsWhatAFilterLeavesOut(t *testing.T) {
	t.Run("idle", func(t *testing.T) { testFilter(t, 0) })
	t.Run("busy", func(t *testing.T) { testFilter(t, 5) })
}

func testFilter(t *testing.T, others int64) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var handled atomic.Int64
		work(t, b, "q", func(context.Context, *consume.Delivery) error { handled.Add(1); return nil })
		sendCalls(t, b, "q", 5)
		bustest.WaitUntil(t, "the first calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
		cons, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Calls), b.WorkerConsumer("q").Name)
		if err != nil {
			t.Fatal(err)
		}
		config := cons.CachedInfo().Config
		all := config
		config.MaxAckPending = 1000 // it delivers all the same
		if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(bus.Calls), config); err != nil {
			t.Fatal(err)
		}
		sendCalls(t, b, "q", 5)
		bustest.WaitUntil(t, "the next calls to be removed", func() bool { return handled.Load() == 10 && bustest.Messages(t, b, bus.Calls) == 0 })
		config.FilterSubjects = []string{"stevedore.raw.q.>"}
		if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(bus.Calls), config); err != nil {
			t.Fatal(err)
		}
		sendCalls(t, b, "q", 5)
		for i := range others {
			if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Raw("q", "x", "s", fmt.Sprint("r", i)), Body: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
		bustest.WaitUntil(t, "the raw results", func() bool { return handled.Load() == 10+others })
		time.Sleep(time.Minute) // meanwhile, the process removes settled messages
		if n := bustest.Messages(t, b, bus.Calls); n < 5 {
			t.Fatalf("%d messages are left, want the calls", n)
		}
		if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(bus.Calls), all); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("q", "x", "s", "later"), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "the later call", func() bool { return handled.Load() == 11+others })
		time.Sleep(time.Minute)
		if _, err := b.Consumer(t.Context(), b.WorkerConsumer("q")); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "all calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
		if n := handled.Load(); n < 16+others {
			t.Errorf("%d messages were handled, want %d", n, 16+others)
		}
	})
}

// The consumer of an earlier version delivers fewer subjects. A process that starts adds the others. It makes a new consumer only
// if the former one has passed a message, because a new one delivers again what other processes handle.
func TestConsumerOfAnEarlierVersion(t *testing.T) {
	for name, passed := range map[string]bool{"nothing is passed": false, "a message is passed": true} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.New(t)
				c := b.ChannelConsumer("log")
				former := c
				former.Filter = []string{b.NotifyAny("log")}
				cons, err := b.Consumer(t.Context(), former)
				if err != nil {
					t.Fatal(err)
				}
				publish := func(subject string) {
					t.Helper()
					if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte("{}")}); err != nil {
						t.Fatal(err)
					}
				}
				if passed {
					publish(b.Notify("log", "chat"))
				}
				publish(b.NotifyAny("log"))
				if _, err := cons.Next(); err != nil { // it is handled while the next process starts
					t.Fatal(err)
				}
				later, err := b.Consumer(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if !passed {
					publish(b.Notify("log", "chat"))
				}
				var subjects []string
				batch, err := later.Fetch(9, jetstream.FetchMaxWait(time.Second))
				if err != nil {
					t.Fatal(err)
				}
				for msg := range batch.Messages() {
					subjects = append(subjects, msg.Subject())
				}
				want := []string{b.Notify("log", "chat")}
				if passed {
					want = append(want, b.NotifyAny("log"))
				}
				if !slices.Equal(subjects, want) {
					t.Errorf("the next process gets %q, want %q", subjects, want)
				}
			})
		})
	}
}

// A process that has settled nothing does not say of a server that is away that settled messages stay.
func TestIdleProcessTrimsNothingWhileTheServerIsAway(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		s := bustest.Server(t)
		b := bustest.Connect(t, s, bus.Config{Log: zerolog.New(zerolog.SyncWriter(&log))})
		stop := work(t, b, "q", func(context.Context, *consume.Delivery) error { return nil })
		time.Sleep(time.Minute)
		s.Close()
		time.Sleep(time.Minute)
		stop()
		b.Close()
		if text := log.String(); !strings.Contains(text, "cannot pull") || strings.Contains(text, "cannot remove settled messages") {
			t.Error(text)
		}
	})
}

// If somebody has made the consumer of a queue so that it begins after the calls that wait, or takes them for settled when it
// delivers them, a process that starts makes it anew.
func TestConsumerThatSomebodyMade(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		for i, config := range []jetstream.ConsumerConfig{
			{DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckExplicitPolicy}, {AckPolicy: jetstream.AckNonePolicy},
		} {
			queue := fmt.Sprint("q", i)
			c := b.WorkerConsumer(queue)
			sendCalls(t, b, queue, 5)
			config.Durable, config.FilterSubjects, config.MaxAckPending = c.Name, c.Filter, -1
			if _, err := b.JetStream().CreateConsumer(t.Context(), b.StreamName(bus.Calls), config); err != nil {
				t.Fatal(err)
			}
			var attempts atomic.Int64
			work(t, b, queue, func(context.Context, *consume.Delivery) error {
				if attempts.Add(1) <= 5 {
					return consume.RetryAfter(time.Second, nil)
				}
				return nil
			})
			bustest.WaitUntil(t, "the calls to be handled twice", func() bool { return attempts.Load() == 10 })
		}
	})
}
