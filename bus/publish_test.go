package bus_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

func TestFirstPublishWins(t *testing.T) {
	b := bustest.New(t)
	msg := bus.Message{Subject: b.Result("s", "c"), Body: []byte("first")}
	if _, err := b.Publish(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	msg.Body = []byte("second")
	if _, err := b.Publish(t.Context(), msg); !errors.Is(err, bus.ErrSubjectExists) {
		t.Errorf("error %v", err)
	}
	if body, _, err := bustest.Message(b.Last(t.Context(), bus.Results, msg.Subject)); string(body) != "first" {
		t.Errorf("stored %q, %v", body, err)
	}
}

// The server rejects a call that would vanish after a time, because an accepted call has a result.
func TestCallThatExpiresIsRejected(t *testing.T) {
	b := bustest.New(t)
	for i, subject := range []string{b.Call("q", "x", "s", "c"), b.Raw("q", "x", "s", "d")} {
		msg := nats.NewMsg(subject)
		msg.Header.Set(jetstream.MsgTTLHeader, "1h")
		if _, err := b.JetStream().PublishMsg(t.Context(), msg); err == nil || !strings.Contains(err.Error(), "TTL") {
			t.Errorf("%s: %v", subject, err)
		}
		if n := bustest.Messages(t, b, bus.Calls); n != i {
			t.Errorf("%d messages are stored, want %d", n, i)
		}
		if _, err := b.JetStream().PublishMsg(t.Context(), nats.NewMsg(subject)); err != nil {
			t.Errorf("%s without a TTL: %v", subject, err)
		}
	}
}

// The stream drops a repeated key. Publish does not change the caller's header.
func TestPublishKey(t *testing.T) {
	b := bustest.New(t)
	header := nats.Header{"x": {"y"}}
	msg := bus.Message{Subject: b.NotifyAny("c"), Body: []byte("{}"), Key: "k", Header: header}
	first, err := b.Publish(t.Context(), msg)
	if err != nil || first.Duplicate {
		t.Fatal(first, err)
	}
	second, err := b.Publish(t.Context(), msg)
	if err != nil || !second.Duplicate || second.Sequence != first.Sequence {
		t.Errorf("second publish: %+v, %v; the first was %+v", second, err, first)
	}
	if len(header) != 1 {
		t.Errorf("the header became %v", header)
	}
}

// A full stream rejects messages and keeps the accepted ones.
func TestPublishToFullStream(t *testing.T) {
	b := bustest.Connect(t, bustest.Server(t), bus.Config{MaxBytes: 64 << 10})
	accepted := 0
	for {
		_, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: make([]byte, 1000)})
		if errors.Is(err, bus.ErrFull) {
			break
		}
		if accepted++; err != nil || accepted > 100 {
			t.Fatalf("after %d messages: %v", accepted, err)
		}
	}
	if n := bustest.Messages(t, b, bus.Calls); n != accepted {
		t.Errorf("%d messages, want %d", n, accepted)
	}
}

// The limit includes headers. A message that exceeds it by one byte only fails itself.
func TestPublishTooLarge(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	limit := int(b.Conn().MaxPayload())
	keyed := limit - len("NATS/1.0\r\nNats-Msg-Id: k\r\n\r\n")
	for _, c := range []struct {
		size int
		key  string
		ok   bool
	}{{limit, "", true}, {limit + 1, "", false}, {keyed, "k", true}, {keyed + 1, "k", false}, {2 * limit, "", false}} {
		_, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: make([]byte, c.size), Key: c.key})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, bus.ErrTooLarge) {
			t.Errorf("%d bytes, key %q: %v", c.size, c.key, err)
		}
	}
	if n := bustest.Messages(t, b, bus.Calls); n != 2 {
		t.Errorf("%d messages", n)
	}
}

func TestPublishBadSubject(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, subject := range []string{"", "stevedore.call.default.*", "stevedore.call.a b.c", "a.\r\nPUB x", strings.Repeat("a", 5000)} {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: subject}); err == nil {
			t.Errorf("%.40q is published to", subject)
		}
	}
	if !b.Conn().IsConnected() {
		t.Error("the connection is lost")
	}
}

// A publish with an ended context sends nothing and returns the reason.
func TestPublishCancelled(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Publish(ctx, bus.Message{Subject: bustest.NewCall(b, "default", "echo")}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if n := bustest.Messages(t, b, bus.Calls); n != 0 {
		t.Errorf("%d messages", n)
	}
}

// If the context ends before the timeout of the message, the error contains the cause. The
// error of a missing bucket names the bucket.
func TestBusWithoutStreams(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.Dial(t, bustest.Server(t), bus.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := b.Publish(ctx, bus.Message{Subject: bustest.NewCall(b, "default", "echo")})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "before that: nats: no response") {
			t.Errorf("publish: %v", err)
		}
		if _, err := b.Bucket(t.Context(), bus.TasksBucket); !errors.Is(err, jetstream.ErrBucketNotFound) || !strings.Contains(err.Error(), "stevedore_tasks") {
			t.Errorf("bucket: %v", err)
		}
	})
}

// A publish is stored once, whatever the network does.
func TestPublishOverBadNetwork(t *testing.T) {
	t.Parallel()
	const n = 40
	for name, disturb := range map[string]func(t *testing.T, p *bustest.Proxy, stored func() int){
		"cut": func(t *testing.T, p *bustest.Proxy, stored func() int) {
			bustest.WaitUntil(t, "a message", func() bool { return stored() > 0 })
			p.Cut()
		},
		"black hole": func(t *testing.T, p *bustest.Proxy, _ func() int) {
			p.Hold()
			bustest.WaitUntil(t, "something to be held", p.Affected)
			p.Heal()
		},
		// The acknowledgements are lost, so only the keys identify the retries.
		"deaf": func(t *testing.T, p *bustest.Proxy, stored func() int) {
			p.DropReplies()
			bustest.WaitUntil(t, "all messages", func() bool { return stored() == n })
			bustest.WaitUntil(t, "a lost answer", p.Affected)
			p.Cut()
			p.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := bustest.Listen(t)
			direct := bustest.Connect(t, s, bus.Config{})
			p := bustest.NewProxy(t, s)
			b := p.Connect(t)
			if name == "deaf" { // before the first message
				p.DropReplies()
			}
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					_, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("console"), Body: []byte("{}"), Key: fmt.Sprint(i)})
					if err != nil {
						t.Error(err)
					}
				})
			}
			disturb(t, p, func() int { return bustest.Messages(t, direct, bus.Outbox) })
			wg.Wait()
			if got := bustest.Messages(t, direct, bus.Outbox); got != n {
				t.Errorf("%d messages, want %d", got, n)
			}
		})
	}
}

// A message that is published twice is stored once, though the server does not answer at first
// whether it is stored.
func TestDuplicateThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	direct := bustest.Connect(t, s, bus.Config{})
	const domain = "$JS.busy.API."
	var asked atomic.Int32
	if _, err := direct.Conn().Subscribe(domain+">", func(msg *nats.Msg) { // the API, which is busy
		request := strings.TrimPrefix(msg.Subject, domain)
		var err error
		if strings.HasPrefix(request, "STREAM.MSG.GET.") && asked.Add(1) <= 2 {
			err = msg.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`))
		} else {
			err = direct.Conn().PublishRequest("$JS.API."+request, msg.Reply, msg.Data)
		}
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := direct.Conn().Flush(); err != nil { // the server knows the subscription
		t.Fatal(err)
	}
	b := bustest.Connect(t, s, bus.Config{Domain: "busy"})
	for range 2 {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("console"), Body: []byte("{}"), Key: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := bustest.Messages(t, direct, bus.Outbox); got != 1 || asked.Load() != 3 {
		t.Errorf("%d messages after %d requests, want 1 after 3", got, asked.Load())
	}
}

// Publishes during a restart of the server are each stored once, in a stream that remembers keys.
func TestPublishDuringServerRestart(t *testing.T) {
	t.Parallel()
	const n = 200
	cfg := embedded.Config{Dir: t.TempDir(), Listen: bustest.FreeAddress(t), NoSync: true}
	s := bustest.Start(t, cfg)
	b, err := bus.Connect(t.Context(), bus.Config{Server: s.URL(), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	half := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range n / 4 {
				if i == 0 && j == n/8 {
					close(half)
				}
				if _, err := b.Publish(t.Context(), bus.Message{Subject: b.NotifyAny("console"), Body: []byte("{}"), Key: fmt.Sprint(i, "-", j)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	<-half
	s.Close()
	bustest.Start(t, cfg)
	wg.Wait()
	if got := bustest.Messages(t, b, bus.Outbox); got != n {
		t.Errorf("%d messages, want %d", got, n)
	}
}

// Publishes beyond the limit in flight wait for others.
func TestPublishManyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 10_000
	b := bustest.New(t)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			_, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("{}"), Timeout: bus.NoTimeout})
			if err != nil && !errors.Is(err, bus.ErrSubjectExists) { // a retry finds what it sent before
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := bustest.Messages(t, b, bus.Calls); got != n {
		t.Errorf("%d messages, want %d", got, n)
	}
}

// A publish after Close fails immediately, and so does one that waits during Close.
func TestPublishAfterClose(t *testing.T) {
	s := bustest.Listen(t)
	direct := bustest.Connect(t, s, bus.Config{})
	p := bustest.NewProxy(t, s)
	b := p.Connect(t)
	p.DropReplies() // no acknowledgement comes
	waits := make(chan error, 1)
	go func() {
		_, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo"), Body: []byte("{}"), Key: "k"})
		waits <- err
	}()
	bustest.WaitUntil(t, "the message", func() bool { return bustest.Messages(t, direct, bus.Calls) == 1 })
	b.Close()
	if err := <-waits; !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("the waiting publish: %v", err)
	}
	if _, err := b.Publish(t.Context(), bus.Message{Subject: bustest.NewCall(b, "default", "echo")}); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("the publish after Close: %v", err)
	}
	b.Close() // once more does no harm
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
