package consume_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// run runs a consumer of the default queue until stop or the end of the test.
func run(t *testing.T, b *bus.Bus, cfg consume.Config, handler consume.Handler) (stop func()) {
	t.Helper()
	return bustest.Run(t, func(ctx context.Context) error {
		return dead.Consume(ctx, b, b.WorkerConsumer("default"), cfg, nil, handler)
	})
}

// send publishes n calls with the bodies 0, 1, 2, ...
func send(t *testing.T, b *bus.Bus, n int) {
	t.Helper()
	for i := range n {
		if _, err := b.JetStream().Publish(t.Context(), bustest.NewCall(b, "default", "echo"), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
}

func waitForEmpty(t *testing.T, b *bus.Bus) {
	t.Helper()
	bustest.WaitUntil(t, "an empty stream", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
}

// A consumer holds no more messages than it has slots, and short messages use all slots
// that long handlers leave.
func TestSlots(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		const slots, long = 8, 5
		b := bustest.New(t)
		var running, most, handled atomic.Int64
		release := make(chan struct{})
		run(t, b, consume.Config{Slots: slots}, func(_ context.Context, d *consume.Delivery) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			if handled.Add(1) <= long {
				<-release
			}
			return nil
		})
		// The long ones first, then more than the remaining slots.
		send(t, b, 200)
		bustest.WaitUntil(t, "the short ones", func() bool { return handled.Load() == 200 && running.Load() == long })
		info, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Calls), "worker-default")
		if err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "their acknowledgements", func() bool {
			i, err := info.Info(t.Context())
			return err == nil && i.NumAckPending == long
		})
		close(release)
		waitForEmpty(t, b)
		if most.Load() > slots {
			t.Errorf("%d ran at once, with %d slots", most.Load(), slots)
		}
	})
}

// All slots can be in use at once, also after short messages have used them.
func TestAllSlotsAreReused(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		const slots = 8
		b := bustest.New(t)
		var running atomic.Int64
		release := make(chan struct{})
		run(t, b, consume.Config{Slots: slots}, func(_ context.Context, d *consume.Delivery) error {
			if string(d.Body) == "block" {
				running.Add(1)
				<-release
			}
			return nil
		})
		defer close(release)
		send(t, b, 3*slots)
		waitForEmpty(t, b)
		for i := range slots { // one at a time: the pull that is waiting gets them
			if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("block")}); err != nil {
				t.Fatal(err)
			}
			bustest.WaitUntil(t, fmt.Sprint("slot ", i), func() bool { return running.Load() == int64(i+1) })
		}
	})
}

// If more messages wait than there are slots, the rest stays on the server for other
// workers.
func TestNoMoreThanSlotsAreHeld(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		const slots, n = 8, 20
		b := bustest.New(t)
		send(t, b, n)
		var running atomic.Int64
		release := make(chan struct{})
		run(t, b, consume.Config{Slots: slots}, func(context.Context, *consume.Delivery) error {
			running.Add(1)
			<-release
			return nil
		})
		bustest.WaitUntil(t, "full slots", func() bool { return running.Load() >= slots })
		cons, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Calls), "worker-default")
		if err != nil {
			t.Fatal(err)
		}
		if info := cons.CachedInfo(); info.NumAckPending != slots || info.NumPending != n-slots || running.Load() != slots {
			t.Errorf("%d held, %d left, %d running", info.NumAckPending, info.NumPending, running.Load())
		}
		close(release)
		waitForEmpty(t, b)
	})
}

// A detached handler releases its slot.
func TestDetach(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		release := make(chan struct{})
		var detached, done atomic.Int64
		run(t, b, consume.Config{Slots: 1}, func(_ context.Context, d *consume.Delivery) error {
			d.Detach()
			d.Detach() // twice gives no second slot
			detached.Add(1)
			<-release
			done.Add(1)
			return nil
		})
		send(t, b, 20)
		bustest.WaitUntil(t, "all handlers", func() bool { return detached.Load() == 20 })
		close(release)
		waitForEmpty(t, b)
		if done.Load() != 20 {
			t.Errorf("%d handled", done.Load())
		}
	})
}

// A message whose handler takes longer than its lease is delivered once.
func TestLeaseIsKept(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{Lease: time.Second})
		var deliveries, done atomic.Int64
		run(t, b, consume.Config{}, func(ctx context.Context, d *consume.Delivery) error {
			deliveries.Add(1)
			select {
			case <-time.After(10 * time.Second):
				done.Add(1)
			case <-ctx.Done():
			}
			return nil
		})
		send(t, b, 1)
		waitForEmpty(t, b)
		if deliveries.Load() != 1 || done.Load() != 1 {
			t.Errorf("%d deliveries, %d handled", deliveries.Load(), done.Load())
		}
	})
}

// Each verdict settles the message as documented.
func TestVerdicts(t *testing.T) {
	cause := errors.New("the cause")
	for name, c := range map[string]struct {
		handle   func(d *consume.Delivery) error
		attempts int
		code     string // of the dead letter, if there is one
	}{
		"done":            {func(*consume.Delivery) error { return nil }, 1, ""},
		"reject":          {func(*consume.Delivery) error { return consume.Reject("bad", cause) }, 1, "bad"},
		"wrapped reject":  {func(*consume.Delivery) error { return fmt.Errorf("step: %w", consume.Reject("bad", cause)) }, 1, "bad"},
		"retry for ever":  {func(*consume.Delivery) error { return consume.RetryAfter(time.Millisecond, cause) }, 3, "attempts_exhausted"},
		"retry then done": {func(d *consume.Delivery) error { return onAttempt(d, 2, consume.RetryAfter(time.Millisecond, cause)) }, 2, ""},
		"error then done": {func(d *consume.Delivery) error { return onAttempt(d, 2, cause) }, 2, ""},
		"panic then done": {func(d *consume.Delivery) error {
			if d.Attempt == 1 {
				panic("handler bug")
			}
			return nil
		}, 2, ""},
		"panic for ever": {func(d *consume.Delivery) error { panic("handler bug") }, 3, "attempts_exhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.Connect(t, bustest.Server(t), bus.Config{})
				letters := bustest.Subscribe(t, b, "stevedore.dead.>")
				var attempts atomic.Int64
				var final atomic.Int64
				run(t, b, consume.Config{MaxAttempts: 3}, func(_ context.Context, d *consume.Delivery) error {
					attempts.Add(1)
					if d.Final {
						final.Add(1)
					}
					return c.handle(d)
				})
				send(t, b, 1)
				waitForEmpty(t, b)
				if got := int(attempts.Load()); got != c.attempts || (final.Load() == 1) != (c.attempts == 3) {
					t.Errorf("%d attempts, %d of them final, want %d", got, final.Load(), c.attempts)
				}
				if c.code == "" {
					if n := bustest.Messages(t, b, bus.Dead); n != 0 {
						t.Errorf("%d dead letters", n)
					}
					return
				}
				letter, _ := bustest.Next[dead.Letter](t, letters)
				if letter.Code != c.code || letter.Reason == "" || string(letter.Body) != "0" || letter.Attempts != c.attempts {
					t.Errorf("dead letter %+v", letter)
				}
			})
		})
	}
}

func onAttempt(d *consume.Delivery, success int, before error) error {
	if d.Attempt < success {
		return before
	}
	return nil
}

// A message that was delivered too often without being settled is not handled again,
// because it may have killed the processes that handled it.
func TestPoisonIsNotHandled(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")
		if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		bustest.Fail(t, b, "default", 3)
		run(t, b, consume.Config{MaxAttempts: 3}, func(context.Context, *consume.Delivery) error {
			t.Error("it is handled")
			return nil
		})
		if letter, _ := bustest.Next[dead.Letter](t, letters); letter.Code != "poison" {
			t.Errorf("dead letter %+v", letter)
		}
		waitForEmpty(t, b)
	})
}

// A message is handled as long as ShouldRetry returns true. Then it becomes a dead
// letter.
func TestShouldRetry(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		letters := bustest.Subscribe(t, b, "stevedore.dead.>")
		if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		bustest.Fail(t, b, "default", 7)
		var asked, handled atomic.Int64
		run(t, b, consume.Config{MaxAttempts: 3, ShouldRetry: func(context.Context, *consume.Delivery) (bool, error) {
			n := asked.Add(1)
			if n == 2 {
				return false, consume.RetryAfter(time.Millisecond, errors.New("nobody knows"))
			}
			return n < 4, nil
		}}, func(_ context.Context, d *consume.Delivery) error {
			handled.Add(1)
			if d.Final {
				t.Errorf("attempt %d is marked as final", d.Attempt)
			}
			return consume.RetryAfter(time.Millisecond, errors.New("again"))
		})
		letter, _ := bustest.Next[dead.Letter](t, letters)
		waitForEmpty(t, b)
		if letter.Code != "poison" || handled.Load() != 2 || asked.Load() != 4 {
			t.Errorf("dead letter %+v after %d of %d times", letter, handled.Load(), asked.Load())
		}
	})
}

// notStarted is the ShouldRetry of a consumer whose earlier deliveries were no attempts.
func notStarted(_ context.Context, d *consume.Delivery) (bool, error) {
	d.Attempt = 1
	return false, nil
}

// A stop requeues interrupted messages. The next consumer gets them immediately, whatever
// the lease is.
func TestStopRequeuesInterruptedMessages(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Connect(t, bustest.Server(t), bus.Config{Lease: time.Hour})
		send(t, b, 3)
		for range 7 {
			var started sync.WaitGroup
			started.Add(3)
			stop := run(t, b, consume.Config{MaxAttempts: 2, Grace: time.Nanosecond, ShouldRetry: notStarted}, func(ctx context.Context, d *consume.Delivery) error {
				started.Done()
				<-ctx.Done()
				return ctx.Err()
			})
			started.Wait()
			stop()
		}
		ids := make(chan string, 3)
		run(t, b, consume.Config{ShouldRetry: notStarted}, func(_ context.Context, d *consume.Delivery) error {
			ids <- d.ID()
			return nil
		})
		waitForEmpty(t, b)
		for range 3 { // the names that they had at first
			var sequence, at uint64
			id := <-ids
			if _, err := fmt.Sscanf(id, "seq-%d-%x", &sequence, &at); err != nil || sequence < 1 || sequence > 3 {
				t.Errorf("id %q", id)
			}
		}
	})
}

// Messages that arrive during a stop are requeued immediately. None is lost or handled
// twice.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	const n, stops = 2000, 20
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{Lease: time.Hour})
	tcp, err := bus.Connect(t.Context(), bus.Config{Server: s.URL(), Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tcp.Close)
	padding := strings.Repeat(" ", 4000) // so that a pull takes a while to arrive
	for i := range n {
		if _, err := b.JetStream().PublishAsync(bustest.NewCall(b, "default", "echo"), fmt.Append(nil, i, padding), jetstream.WithStallWait(bustest.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	<-b.JetStream().PublishAsyncComplete()
	var handled sync.Map
	handler := func(d *consume.Delivery) {
		if _, twice := handled.LoadOrStore(string(d.Body), true); twice {
			t.Errorf("%.4s is handled twice", d.Body)
		}
	}
	for range stops { // at the first message, with hundreds behind it
		var came atomic.Bool
		stop := run(t, tcp, consume.Config{Slots: 512, MaxAttempts: 3, ShouldRetry: notStarted}, func(_ context.Context, d *consume.Delivery) error {
			handler(d)
			came.Store(true)
			return nil
		})
		bustest.WaitUntil(t, "a message", func() bool { return came.Load() || bustest.Messages(t, b, bus.Calls) == 0 })
		stop()
	}
	run(t, tcp, consume.Config{MaxAttempts: 3, ShouldRetry: notStarted}, func(_ context.Context, d *consume.Delivery) error {
		handler(d)
		return nil
	})
	waitForEmpty(t, b)
	if d := bustest.Messages(t, b, bus.Dead); d != 0 {
		t.Errorf("%d dead letters", d)
	}
}

// Run leaves no goroutine.
func TestConsumeLeavesNoGoroutines(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		round := func() {
			send(t, b, 20)
			var handled atomic.Int64
			stop := run(t, b, consume.Config{}, func(context.Context, *consume.Delivery) error {
				handled.Add(1)
				return nil
			})
			waitForEmpty(t, b)
			stop()
		}
		round()
		subs := b.Conn().NumSubscriptions()
		before := runtime.NumGoroutine()
		for range 4 {
			round()
		}
		bustest.WaitUntil(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before+2 })
		bustest.WaitUntil(t, "the subscriptions to end", func() bool { return b.Conn().NumSubscriptions() <= subs })
	})
}

// A burst leaves no idle goroutines behind.
func TestBurstLeavesNoGoroutines(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		const burst = 100
		var running atomic.Int64
		release := make(chan struct{})
		stop := run(t, b, consume.Config{Slots: burst}, func(context.Context, *consume.Delivery) error {
			running.Add(1)
			<-release
			return nil
		})
		time.Sleep(time.Minute)
		before := runtime.NumGoroutine()
		send(t, b, burst)
		bustest.WaitUntil(t, "the burst", func() bool { return running.Load() == burst })
		close(release)
		time.Sleep(2 * time.Minute)
		if n := runtime.NumGoroutine(); n > before+burst/2 {
			t.Errorf("%d goroutines, and %d before the burst", n, before)
		}
		stop()
	})
}

// If a client deletes the consumer, Run creates it again.
func TestConsumerIsDeleted(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var handled atomic.Int64
		run(t, b, consume.Config{}, func(context.Context, *consume.Delivery) error {
			handled.Add(1)
			return nil
		})
		for round := range 3 {
			send(t, b, 5)
			bustest.WaitUntil(t, "the messages", func() bool { return handled.Load() == int64(5*(round+1)) })
			waitForEmpty(t, b)
			if err := b.JetStream().DeleteConsumer(t.Context(), b.StreamName(bus.Calls), "worker-default"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A process whose slots were all in use while another one made the deleted consumer again knows, too, that others may handle
// what it gets.
func TestConsumerIsMadeAgainElsewhere(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		type handled struct {
			body        string
			redelivered bool
		}
		var seen sync.Map
		began, ends := make(chan handled), map[string]chan struct{}{"0": make(chan struct{}), "1": make(chan struct{}), "2": make(chan struct{})}
		start := func(slots int) {
			run(t, b, consume.Config{Slots: slots, Grace: time.Millisecond}, func(ctx context.Context, d *consume.Delivery) error {
				end := ends[string(d.Body)]
				if _, again := seen.LoadOrStore(string(d.Body), true); again {
					end = nil
				}
				began <- handled{string(d.Body), d.Redelivered}
				select {
				case <-end:
				case <-ctx.Done():
				}
				return nil
			})
		}
		start(2)
		send(t, b, 2)
		<-began
		<-began
		start(1)
		if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("2")}); err != nil {
			t.Fatal(err)
		}
		<-began
		if err := b.JetStream().DeleteConsumer(t.Context(), b.StreamName(bus.Calls), "worker-default"); err != nil {
			t.Fatal(err)
		}
		for _, ended := range []string{"0", "2"} { // the first process makes the consumer again, and is busy with what it gets
			close(ends[ended])
			if got := <-began; !got.redelivered {
				t.Errorf("message %s is not marked as redelivered", got.body)
			}
		}
	})
}

// If a client has limited how often the server delivers a message, a process that starts handles what reached the limit,
// although later messages were settled and removed meanwhile.
func TestConsumerWithMaxDeliver(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		c := b.WorkerConsumer("default")
		consumer, err := b.Consumer(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		config := consumer.CachedInfo().Config
		config.MaxDeliver = 2
		if consumer, err = b.JetStream().UpdateConsumer(t.Context(), b.StreamName(c.Stream), config); err != nil {
			t.Fatal(err)
		}
		send(t, b, 5)
		for range 5 * config.MaxDeliver {
			m, err := consumer.Next()
			if err == nil {
				err = m.Nak()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute)); err == nil {
			t.Fatalf("%s is delivered again", m.Subject())
		}
		var handled, failed atomic.Int64
		var fails atomic.Bool
		handle := func(context.Context, *consume.Delivery) error {
			if fails.Load() {
				failed.Add(1)
				return errors.New("fails")
			}
			handled.Add(1)
			return nil
		}
		run(t, b, consume.Config{}, handle)
		waitForEmpty(t, b)
		if n := handled.Load(); n != 5 {
			t.Fatalf("%d messages were handled, want 5", n)
		}

		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverAllPolicy, 0
		if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(c.Stream), config); err != nil {
			t.Fatal(err)
		}
		fails.Store(true)
		send(t, b, 5)
		bustest.WaitUntil(t, "failures", func() bool { return failed.Load() == 10 })
		time.Sleep(time.Minute) // the server finds that they have reached the limit
		fails.Store(false)
		send(t, b, 5)
		time.Sleep(time.Minute) // meanwhile, the process removes settled messages
		if n := bustest.Messages(t, b, bus.Calls); n < 5 {
			t.Fatalf("%d messages are left, want those that reached the limit", n)
		}
		if _, err := b.Consumer(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		waitForEmpty(t, b)
		if n := handled.Load(); n < 15 { // some may be delivered again
			t.Errorf("%d messages were handled, want 15", n)
		}
	})
}

// Run continues after a restart of the server.
func TestConsumeAfterServerRestart(t *testing.T) {
	t.Parallel()
	cfg := embedded.Config{Dir: t.TempDir(), Listen: bustest.FreeAddress(t), NoSync: true}
	s := bustest.Start(t, cfg)
	b, err := bus.Connect(t.Context(), bus.Config{Server: s.URL(), Timeout: 5 * time.Second, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	run(t, b, consume.Config{}, func(context.Context, *consume.Delivery) error {
		handled.Add(1)
		return nil
	})
	for round := range 3 {
		for i := range 5 {
			// The client may not have noticed the restart yet. A second try may find what the first one stored.
			msg := bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("{}"), Key: fmt.Sprint(round, "-", i)}
			if _, err := b.Publish(t.Context(), msg); err != nil && !errors.Is(err, bus.ErrSubjectExists) {
				t.Fatal(err)
			}
		}
		bustest.WaitUntil(t, "the messages", func() bool { return handled.Load() >= int64(5*(round+1)) })
		s.Close()
		s = bustest.Start(t, cfg)
	}
}

// A connection that is cut repeatedly or stops responding loses no message.
func TestConsumeOverBadNetwork(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	direct := bustest.Connect(t, s, bus.Config{})
	p := bustest.NewProxy(t, s)
	b := p.Connect(t)
	var handled sync.Map
	var count atomic.Int64
	run(t, b, consume.Config{Slots: 16, MaxAttempts: 100}, func(_ context.Context, d *consume.Delivery) error {
		if _, again := handled.LoadOrStore(string(d.Body), true); !again {
			count.Add(1)
		}
		return nil
	})
	send(t, direct, 300)
	for next := int64(50); next < 300; next += 50 {
		bustest.WaitUntil(t, "progress", func() bool { return count.Load() >= next })
		p.Cut()
	}
	waitForEmpty(t, direct)
	if count.Load() != 300 {
		t.Errorf("%d handled", count.Load())
	}
}

// Run waits for a server that does not answer when it starts.
func TestConsumeStartsWithoutAnAnswer(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		direct := bustest.Connect(t, s, bus.Config{})
		asked := 0
		_, err := direct.Conn().Subscribe("mute.>", func(m *nats.Msg) {
			subject := strings.TrimPrefix(m.Subject, "mute.")
			if strings.HasPrefix(subject, "CONSUMER.INFO.") {
				if asked++; asked <= 2 { // the second one follows an error
					return
				}
			}
			_ = direct.Conn().PublishMsg(&nats.Msg{Subject: "$JS.API." + subject, Reply: m.Reply, Header: m.Header, Data: m.Data}) // the test ends if it is lost
		})
		if err == nil {
			err = direct.Conn().Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		b := bustest.Dial(t, s, bus.Config{APIPrefix: "mute"})
		run(t, b, consume.Config{}, func(context.Context, *consume.Delivery) error { return nil })
		send(t, direct, 1)
		waitForEmpty(t, direct)
	})
}

// A message with a status header of the server is still a message.
func TestForgedStatusHeader(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		got := make(chan string, 1)
		if _, err := b.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: bustest.NewCall(b, "default", "echo"), Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}}}); err != nil {
			t.Fatal(err)
		}
		run(t, b, consume.Config{}, func(_ context.Context, d *consume.Delivery) error {
			got <- d.Header("Status")
			return nil
		})
		waitForEmpty(t, b)
		if status := <-got; status != "409" {
			t.Errorf("status %q", status)
		}
	})
}

// An id from a header is used unchanged, unless it is too long.
func TestDeliveryID(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		ids := make(chan string, 3)
		run(t, b, consume.Config{Slots: 1}, func(_ context.Context, d *consume.Delivery) error {
			ids <- d.ID()
			return nil
		})
		for _, c := range []struct{ key, want string }{{"mine", "mine"}, {"", "seq-2-"}, {strings.Repeat("x", 5000), "seq-3-"}} {
			msg := &nats.Msg{Subject: bustest.NewCall(b, "default", "echo"), Header: nats.Header{}}
			if c.key != "" {
				msg.Header.Set("Nats-Msg-Id", c.key)
			}
			if _, err := b.JetStream().PublishMsg(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
			if got := <-ids; !strings.HasPrefix(got, c.want) {
				t.Errorf("id %.40q, want %q", got, c.want)
			}
		}
	})
}

// A consumer that fails for a moment is no trouble, one that fails for longer is, and the trouble ends
// when the server waits for messages again, long before one comes.
func TestFailingConsumerIsReported(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		register := new(trouble.Register)
		defer bustest.Run(t, func(ctx context.Context) error {
			return dead.Consume(register.With(ctx), b, b.WorkerConsumer("default"), consume.Config{}, nil, func(context.Context, *consume.Delivery) error { return nil })
		})()
		time.Sleep(time.Second)
		check := func(when string, want int) {
			t.Helper()
			if list := register.List(); len(list) != want || want > 0 && !strings.Contains(list[0].Error, "does not exist") {
				t.Errorf("%s: %+v", when, list)
			}
		}
		if err := b.JetStream().DeleteConsumer(t.Context(), b.StreamName(bus.Calls), "worker-default"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		check("after a deleted consumer", 0)
		stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
		if err == nil {
			err = b.JetStream().DeleteStream(t.Context(), b.StreamName(bus.Calls))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		check("without the stream", 1)
		if _, err := b.JetStream().CreateStream(t.Context(), stream.CachedInfo().Config); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // the longest pause and a heartbeat, less than the time of a request
		check("with the stream", 0)
	})
}

// A consumer that delivers headers only is no reason to handle an empty message.
func TestHeadersOnly(t *testing.T) {
	b := bustest.New(t)
	consumer, err := b.Consumer(t.Context(), b.WorkerConsumer(bus.DefaultQueue))
	if err != nil {
		t.Fatal(err)
	}
	bodies := make(chan string, 2)
	run(t, b, consume.Config{MaxAttempts: 1}, func(_ context.Context, d *consume.Delivery) error {
		if string(d.Body) == `"poison"` {
			return consume.RetryAfter(time.Millisecond, nil)
		}
		bodies <- string(d.Body)
		return nil
	})
	config := consumer.CachedInfo().Config
	config.HeadersOnly = true
	bustest.WaitUntil(t, "the start, which would give the consumer its settings back", func() bool {
		info, err := consumer.Info(t.Context())
		return err == nil && info.NumWaiting > 0
	})
	if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(bus.Calls), config); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"args":{}}`, ""} {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		if got := <-bodies; got != body {
			t.Errorf("got %q, want %q", got, body)
		}
	}
	letters := bustest.Subscribe(t, b, "stevedore.dead.>")
	if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte(`"poison"`)}); err != nil {
		t.Fatal(err)
	}
	if letter, _ := bustest.Next[dead.Letter](t, letters); letter.Code != consume.CodePoison || string(letter.Body) != `"poison"` {
		t.Errorf("letter %+v", letter)
	}
}

// A process with a longer lease than that of an existing consumer raises it. One with a shorter lease leaves it as it is: a
// process that runs extends its leases as often as the present one needs.
func TestLeaseIsRaised(t *testing.T) {
	server := bustest.Server(t)
	for _, c := range []struct{ own, want time.Duration }{{2 * time.Second, 2 * time.Second}, {20 * time.Second, 20 * time.Second}, {5 * time.Second, 20 * time.Second}} {
		b := bustest.Connect(t, server, bus.Config{Lease: c.own})
		consumer, err := b.Consumer(t.Context(), b.WorkerConsumer(bus.DefaultQueue))
		if err != nil {
			t.Fatal(err)
		}
		if got := consumer.CachedInfo().Config.AckWait; got != c.want {
			t.Errorf("a process with %s: %s, want %s", c.own, got, c.want)
		}
	}
}
