// Package bustest connects tests to a real bus: an embedded NATS server whose data
// is in the temporary directory of the test.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package bustest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// At Go's default, garbage collection takes a tenth of the processor time of the tests.
func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// Start starts a server that is stopped at the end of the test. Dir defaults to a
// temporary directory; Log is the log of the test.
func Start(t testing.TB, cfg embedded.Config) *embedded.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Log = Log(t)
	s, err := embedded.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if inBubble.Load() {
		// The server sleeps under a lock when it stops. Virtual time stands still if a request that came before
		// wants the lock.
		t.Cleanup(synctest.Wait)
	}
	return s
}

// Server starts a server without a socket and without syncing.
func Server(t testing.TB) *embedded.Server {
	t.Helper()
	return Start(t, embedded.Config{NoSync: true})
}

// Listen starts a server that listens on a free port, without syncing.
func Listen(t testing.TB) *embedded.Server {
	t.Helper()
	return Start(t, embedded.Config{NoSync: true, Listen: "127.0.0.1:0"})
}

// Dial connects to s without provisioning.
func Dial(t testing.TB, s *embedded.Server, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), s.ClientConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Connect connects to s and provisions the topology.
func Connect(t testing.TB, s *embedded.Server, cfg bus.Config) *bus.Bus {
	t.Helper()
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 256 << 20
	}
	b := Dial(t, s, cfg)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	return b
}

// New starts a server and connects to it.
func New(t testing.TB) *bus.Bus {
	t.Helper()
	return Connect(t, Server(t), bus.Config{Log: Log(t)})
}

// Log writes warnings and errors to the test's log.
func Log(t testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
}

// Subscribe subscribes to a subject and returns once the server knows it.
func Subscribe(t testing.TB, b *bus.Bus, subject string) *nats.Subscription {
	t.Helper()
	sub, err := b.Conn().SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

// Next decodes the next message of a subscription.
func Next[T any](t testing.TB, sub *nats.Subscription) (T, *nats.Msg) {
	t.Helper()
	var v T
	msg, err := sub.NextMsg(Timeout)
	if err != nil {
		t.Fatalf("no message on %s: %v", sub.Subject, err)
	}
	if err := json.Unmarshal(msg.Data, &v); err != nil {
		t.Fatalf("message on %s: %v\n%s", msg.Subject, err, msg.Data)
	}
	return v, msg
}

// Rest returns the messages that the server has sent to a subscription of b before this call.
func Rest(t testing.TB, b *bus.Bus, sub *nats.Subscription) (all []*nats.Msg) {
	t.Helper()
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	for n, _, err := sub.Pending(); n > 0 || err != nil; n, _, err = sub.Pending() {
		msg, failed := sub.NextMsg(Timeout)
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
	return all
}

// Timeout ends a wait that has failed. A machine that is slow or busy does not reach it.
const Timeout = 3 * time.Minute

// WaitUntil polls until ok returns true, until Timeout at most. It polls less and less often,
// because what takes long is often what other processes must compute.
func WaitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	pause := 2 * time.Millisecond
	for deadline := time.Now().Add(Timeout); !ok(); time.Sleep(pause) {
		pause = min(pause*5/4, 50*time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatalf("timeout while waiting for %s", what)
		}
	}
}

// Run calls run until stop is called or the test ends, and fails the test if run
// returns an error, perhaps before that.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// Messages returns the number of messages in a stream.
func Messages(t testing.TB, b *bus.Bus, stream string) int {
	t.Helper()
	var n uint64
	WaitUntil(t, "the state of stream "+stream, func() bool { // a busy server answers late, and a restart loses the request
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s, err := b.JetStream().Stream(ctx, b.StreamName(stream))
		if err == nil {
			n = s.CachedInfo().State.Msgs
		}
		return err == nil
	})
	return int(n)
}

// Waiting returns the number of calls and raw results in their stream.
func Waiting(t testing.TB, b *bus.Bus) int {
	t.Helper()
	return Messages(t, b, bus.Calls)
}

// CallSubject returns the subject of a call that a body names, by an id and perhaps a
// session that are tokens. Without an id, each call is another one.
func CallSubject(b *bus.Bus, queue, tool string, body []byte) string {
	var call struct{ ID, Session string }
	_ = json.Unmarshal(body, &call) // it may be no JSON on purpose
	return b.Call(queue, tool, cmp.Or(call.Session, "default"), cmp.Or(call.ID, nuid.Next()))
}

// NewCall returns the subject of another call each time.
func NewCall(b *bus.Bus, queue, tool string) string { return CallSubject(b, queue, tool, nil) }

// startClock starts the clock that all servers of the process share. It must run
// outside of bubbles, otherwise the first bubble does not end.
var startClock = sync.OnceFunc(ats.Register)

// Bubble runs f in a synctest bubble, in which Server, Connect and New work as
// usual. nats.go keeps timers in a pool, and a timer that leaves its bubble ends
// the process; two garbage collections empty the pool. So no other test may run at the same
// time: a parallel test panics.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	t.Setenv("STEVEDORE_TEST_BUBBLE", "1") // this panics
	startClock()
	emptyTimerPool()
	defer emptyTimerPool() // a failed synctest.Test does not return
	synctest.Test(t, func(t *testing.T) {
		inBubble.Store(true)
		defer inBubble.Store(false)
		f(t)
	})
}

// inBubble says that the test runs in a bubble.
var inBubble atomic.Bool

func emptyTimerPool() {
	for range 2 {
		runtime.GC()
	}
}

// Message returns the answer of bus.Last: the body, and whether there is a message.
func Message(m bus.Stored, err error) (body []byte, ok bool, _ error) {
	return m.Body, m.Sequence > 0, err
}

// Fail delivers each message that waits in a queue so many times, as to workers that fail: the next
// delivery is a further attempt.
func Fail(t testing.TB, b *bus.Bus, queue string, times int) {
	t.Helper()
	consumer, err := b.Consumer(t.Context(), b.WorkerConsumer(queue))
	if err != nil {
		t.Fatal(err)
	}
	var info *jetstream.ConsumerInfo
	time.Sleep(time.Millisecond) // the server tells its consumers of a message after it has acknowledged it
	WaitUntil(t, "a message in the queue "+queue, func() bool {
		if info, err = consumer.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		return info.NumPending > 0
	})
	for range times {
		batch, err := consumer.Fetch(int(info.NumPending), jetstream.FetchMaxWait(Timeout))
		if err != nil {
			t.Fatal(err)
		}
		var taken []jetstream.Msg // all of them, because the server delivers one that failed first
		for msg := range batch.Messages() {
			taken = append(taken, msg)
		}
		for _, msg := range taken {
			err = errors.Join(err, msg.Nak())
		}
		if err = errors.Join(err, batch.Error()); err != nil || len(taken) != int(info.NumPending) {
			t.Fatalf("%d of %d messages: %v", len(taken), info.NumPending, err)
		}
	}
}

// Consumers creates consumers.
func Consumers(t testing.TB, b *bus.Bus, consumers ...bus.Consumer) {
	t.Helper()
	for _, c := range consumers {
		if _, err := b.Consumer(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}
