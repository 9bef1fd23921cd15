package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/dead"
)

func work(t *testing.T, b *bus.Bus, queue string, handler bus.Handler) (stop func()) {
	t.Helper()
	return bustest.Run(t, func(ctx context.Context) error {
		return b.Consume(ctx, b.WorkerConsumer(queue), bus.ConsumeConfig{Grace: time.Second, ShouldRetry: notStarted}, handler)
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
	t.Parallel()
	b := bustest.New(t)
	sendCalls(t, b, "unserved", 10)
	sendCalls(t, b, "served", 100)
	sendCalls(t, b, "unserved2", 10)
	stop := work(t, b, "served", func(context.Context, *bus.Delivery) error { return nil })
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
	work(t, b, "served", func(context.Context, *bus.Delivery) error { t.Error("a settled call was delivered again"); return nil })
	bustest.WaitUntil(t, "the settled calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 20 })
}

// While a call runs for long, the calls that ended before and behind it leave the stream.
// The call itself stays.
func TestTrimBehindALongCall(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("publishes 3,000 calls, which takes long under the race detector")
	}
	b := bustest.New(t)
	running := make(chan struct{})
	release := sync.OnceFunc(func() { close(running) })
	work(t, b, "q", func(_ context.Context, d *bus.Delivery) error {
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
}

// Messages that are requeued while others are removed are delivered again immediately,
// and not when their leases end.
func TestTrimKeepsRequeuedMessages(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Lease: time.Hour})
	const n = 400
	begin := time.Now()
	work(t, b, "q", func(_ context.Context, d *bus.Delivery) error {
		if time.Since(begin) < time.Duration(d.Sequence)*3*time.Millisecond { // so there are purges meanwhile
			return bus.RetryAfter(0, nil)
		}
		return nil
	})
	sendCalls(t, b, "q", n)
	bustest.WaitUntil(t, "all calls to be settled", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
}

// Of many processes that consume a queue, about one removes the settled calls at a time.
func TestOneOfManyTrims(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{})
	var purges atomic.Int64
	if _, err := b.Conn().Subscribe("stevedore.rpc.trimmed.>", func(*nats.Msg) { purges.Add(1) }); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c := bustest.Connect(t, s, bus.Config{})
		work(t, c, "q", func(context.Context, *bus.Delivery) error { return nil })
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
}

// A call that is retried after it became a dead letter replaces its old message, which may
// still be stored; a second retry of the same letter stores nothing.
func TestRetryOfACallThatIsStillStored(t *testing.T) {
	b := bustest.New(t)
	sendCalls(t, b, "q", 1)
	subject := b.Call("q", "x", "s", "q0")
	letter := dead.Stored{Letter: dead.Letter{
		Kind: bus.DeadCall, Name: "x", Code: "test", Subject: subject, Sequence: 1, ID: "q0", At: time.Now(), Body: []byte(`{"n":1}`),
	}}
	for range 2 {
		if err := retry(t.Context(), b, letter); err != nil {
			t.Fatal(err)
		}
	}
	m, err := b.Last(t.Context(), bus.Calls, subject)
	if string(m.Body) != `{"n":1}` || m.Sequence != 2 || err != nil {
		t.Errorf("message %d is %s, %v", m.Sequence, m.Body, err)
	}
	letter.Sequence = 99 // the letter of an earlier message; the call was submitted again
	letter.At = letter.At.Add(time.Second)
	if err := retry(t.Context(), b, letter); !errors.Is(err, bus.ErrSubjectExists) {
		t.Errorf("retried over a call that waits: %v", err)
	}
}

// The server repeats each stored result once, and none that it rejected, also for the
// messages of a batch.
func TestStoredResultsAreRepeated(t *testing.T) {
	t.Parallel()
	b := syncing(t, bus.Config{})
	sub := bustest.Subscribe(t, b, "stevedore.stored.>")
	messages := newResults(b, "s", 200)
	for _, o := range publishTogether(t.Context(), b, append(messages, messages[:100]...)) {
		if o.err != nil && !errors.Is(o.err, bus.ErrSubjectExists) {
			t.Fatal(o.err)
		}
	}
	seen := map[string]int{}
	for range messages {
		msg, err := sub.NextMsg(bustest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		seen[msg.Header.Get(jetstream.SubjectHeader)]++
	}
	for _, m := range messages {
		if seen[m.Subject] != 1 {
			t.Errorf("%s was repeated %d times", m.Subject, seen[m.Subject])
		}
	}
	for _, msg := range bustest.Rest(t, b, sub) {
		t.Errorf("one more: %s", msg.Subject)
	}
}

// retry republishes a dead letter and removes it, as rpc.ChangeLetters does with one that has no result.
func retry(ctx context.Context, b *bus.Bus, letter dead.Stored) error {
	if err := dead.Republish(ctx, b, letter); err != nil {
		return err
	}
	return dead.Remove(ctx, b, letter)
}
