package bus_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// syncing connects to a server that syncs every write.
func syncing(t *testing.T, cfg bus.Config) *bus.Bus {
	t.Helper()
	cfg.Log = bustest.Log(t)
	return bustest.Connect(t, bustest.Start(t, embedded.Config{}), cfg)
}

type outcome struct {
	bus.Ack
	err error
}

// publishTogether publishes all messages at the same time.
func publishTogether(ctx context.Context, b *bus.Bus, messages []bus.Message) []outcome {
	outcomes := make([]outcome, len(messages))
	var wg sync.WaitGroup
	for i, m := range messages {
		wg.Go(func() {
			ack, err := b.Publish(ctx, m)
			outcomes[i] = outcome{ack, err}
		})
	}
	wg.Wait()
	return outcomes
}

// newResults returns messages for so many subjects of the results stream.
func newResults(b *bus.Bus, session string, count int) []bus.Message {
	messages := make([]bus.Message, count)
	for i := range messages {
		messages[i] = bus.Message{Subject: b.Result(session, fmt.Sprint("c", i)), Body: fmt.Append(nil, session, i)}
	}
	return messages
}

// stored returns the messages of a stream by sequence, and how many came in a batch.
func stored(t *testing.T, b *bus.Bus, stream string) (messages map[uint64]jsapi.Message, batched int) {
	t.Helper()
	messages = map[uint64]jsapi.Message{}
	for m, err := range jsapi.New(b.JetStream()).Messages(t.Context(), b.StreamName(stream), jsapi.Get{NextBySubject: ">"}) {
		if err != nil {
			t.Fatal(err)
		}
		messages[m.Sequence] = m
		if m.Header.Get("Nats-Batch-Id") != "" {
			batched++
		}
	}
	return messages, batched
}

// No publish waits until another one is made or fails, however many are in flight.
func TestBatchesFollowEachOther(t *testing.T) {
	t.Parallel()
	b := syncing(t, bus.Config{Timeout: time.Hour})
	for _, publishers := range []int{1, 30, 100} {
		var wg sync.WaitGroup
		for p := range publishers {
			wg.Go(func() {
				for _, m := range newResults(b, fmt.Sprint(publishers, "-", p), 20) {
					if _, err := b.Publish(t.Context(), m); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	if results, batched := stored(t, b, bus.Results); len(results) != 20*131 || batched == 0 {
		t.Errorf("%d results, %d in batches", len(results), batched)
	}
}

// Each publish of a batch gets the acknowledgement of its own message.
func TestBatch(t *testing.T) {
	t.Parallel()
	b := syncing(t, bus.Config{Timeout: time.Hour})
	messages := newResults(b, "s", 600)
	for i := range messages {
		messages[i].Key = fmt.Sprint("k", i)
		if i%2 == 0 {
			messages[i].Subject = b.Call("default", "echo", "s", fmt.Sprint("c", i))
		}
	}
	outcomes := publishTogether(t.Context(), b, messages)
	results, batchedResults := stored(t, b, bus.Results)
	calls, batchedCalls := stored(t, b, bus.Calls)
	if batchedResults == 0 || batchedCalls == 0 { // how many depends on the machine
		t.Errorf("%d results and %d calls came in batches", batchedResults, batchedCalls)
	}
	for i, o := range outcomes {
		got := results[o.Sequence]
		if i%2 == 0 {
			got = calls[o.Sequence]
		}
		if o.err != nil || o.Duplicate || string(got.Data) != string(messages[i].Body) || got.Subject != messages[i].Subject {
			t.Fatalf("publish %d: %+v; stored %s %s", i, o, got.Subject, got.Data)
		}
	}
	if len(results) != 300 || len(calls) != 300 {
		t.Errorf("%d results, %d calls", len(results), len(calls))
	}
}

// If the server rejects a batch, each publish gets its own outcome.
func TestBatchWithConflicts(t *testing.T) {
	t.Parallel()
	b := syncing(t, bus.Config{Timeout: time.Hour})
	for _, c := range []struct {
		name     string
		conflict func(m, other *bus.Message)
		between  []int // the publish of one of these is not stored; none: all are
		want     error
	}{
		{"subject has a message", func(m, _ *bus.Message) { m.Subject = b.Result("first", "c0") }, []int{70}, bus.ErrSubjectExists},
		{"same subject", func(m, other *bus.Message) { m.Subject = other.Subject }, []int{70, 71}, bus.ErrSubjectExists},
		{"known key", func(m, _ *bus.Message) { m.Key = "first" }, nil, nil},
		{"same key", func(m, other *bus.Message) { m.Key, other.Key = "same", "same" }, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := newResults(b, "first", 2)
			first[1].Key = "first"
			publishTogether(t.Context(), b, first)
			before, _ := stored(t, b, bus.Results)
			messages := newResults(b, strings.ReplaceAll(c.name, " ", "-"), 200)
			c.conflict(&messages[70], &messages[71])
			lost := 0
			for i, o := range publishTogether(t.Context(), b, messages) {
				switch {
				case slices.Contains(c.between, i) && (o.err != nil || o.Duplicate):
					if lost++; !errors.Is(o.err, c.want) {
						t.Errorf("publish %d: %+v", i, o)
					}
				case o.err != nil || o.Duplicate:
					t.Errorf("publish %d: %+v", i, o)
				}
			}
			after, _ := stored(t, b, bus.Results)
			if wantLost := min(1, len(c.between)); len(after)-len(before) != 200-wantLost || lost != wantLost {
				t.Errorf("%d messages are stored, %d publishes lost", len(after)-len(before), lost)
			}
		})
	}
}

// Appends with an expected revision work in batches: one of several wins.
func TestBatchWithExpectedRevision(t *testing.T) {
	t.Parallel()
	b := syncing(t, bus.Config{})
	var messages []bus.Message
	for i := range 100 {
		m := bus.Message{Subject: b.Session(fmt.Sprint("s", i)), Body: []byte("x"), Header: bus.ExpectRevision(0)}
		if messages = append(messages, m); i%20 == 0 {
			messages = append(messages, m)
		}
	}
	conflicts := 0
	for i, o := range publishTogether(t.Context(), b, messages) {
		if errors.Is(o.err, bus.ErrConflict) {
			conflicts++
		} else if o.err != nil {
			t.Errorf("publish %d: %v", i, o.err)
		}
	}
	if entries, _ := stored(t, b, bus.Sessions); len(entries) != 100 || conflicts != 5 {
		t.Errorf("%d entries, %d conflicts", len(entries), conflicts)
	}
}

// A batch that does not fit into the stream is rejected; its first messages may fit.
func TestBatchToFullStream(t *testing.T) {
	t.Parallel()
	b := syncing(t, bus.Config{MaxBytes: 64 << 10})
	var messages []bus.Message
	for i := range 200 {
		messages = append(messages, bus.Message{Subject: b.Call("default", "echo", "s", fmt.Sprint("c", i)), Body: make([]byte, 1000)})
	}
	accepted := 0
	for i, o := range publishTogether(t.Context(), b, messages) {
		if o.err == nil {
			accepted++
		} else if !errors.Is(o.err, bus.ErrFull) {
			t.Errorf("publish %d: %v", i, o.err)
		}
	}
	if calls, _ := stored(t, b, bus.Calls); len(calls) != accepted || accepted < 50 {
		t.Errorf("%d stored, %d accepted", len(calls), accepted)
	}
}

// A stream that does not accept batches, and a server that does not sync, get single
// messages. The connection notices if the server restarts without syncing.
func TestNoBatches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := bustest.Start(t, embedded.Config{Dir: dir, Listen: "127.0.0.1:0"})
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.Connect(t.Context(), bus.Config{Server: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	publish := func(session string) (batched int) {
		t.Helper()
		messages := newResults(b, session, 200)
		for i, o := range publishTogether(t.Context(), b, messages) {
			if o.err != nil && !errors.Is(o.err, bus.ErrSubjectExists) { // a busy machine tries again, and finds its own message
				t.Fatalf("%s: publish %d: %v", session, i, o.err)
			}
		}
		entries, batched := stored(t, b, bus.Results)
		bodies := map[string]string{}
		for _, m := range entries {
			bodies[m.Subject] = string(m.Data)
		}
		for _, m := range messages {
			if bodies[m.Subject] != string(m.Body) {
				t.Fatalf("%s has %q, want %q", m.Subject, bodies[m.Subject], m.Body)
			}
		}
		return batched
	}
	allow := func(allow bool) {
		t.Helper()
		stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Results))
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.AllowAtomicPublish = allow
		if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	allow(false)
	if n := publish("disabled"); n != 0 {
		t.Errorf("%d messages came in batches that the stream does not accept", n)
	}
	allow(true)
	restart := func(noSync bool) {
		t.Helper()
		s.Close()
		s = bustest.Start(t, embedded.Config{Dir: dir, Listen: u.Host, NoSync: noSync})
		bustest.WaitUntil(t, "the connection", func() bool {
			_, _, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("disabled", "c0")))
			return err == nil
		})
	}
	restart(false)
	n, tries := 0, 0
	bustest.WaitUntil(t, "batches after the stream accepts them", func() bool { // a busy machine learns late that the server syncs
		tries++
		n = publish(fmt.Sprint("synced", tries))
		return n > 0
	})
	restart(true)
	if n := publish("not-synced") - n; n != 0 {
		t.Errorf("%d messages came in batches without syncing", n)
	}
}

// Publishes whose context ends do not wait for the batch or in the group. Later ones
// are sent.
func TestBatchCancelled(t *testing.T) {
	t.Parallel()
	s := bustest.Start(t, embedded.Config{Listen: "127.0.0.1:0"})
	direct := bustest.Connect(t, s, bus.Config{})
	p := bustest.NewProxy(t, s)
	b := p.Connect(t)
	p.DropReplies()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []outcome)
	go func() { done <- publishTogether(ctx, b, newResults(b, "s", 1200)) }() // more than a batch
	bustest.WaitUntil(t, "a batch", func() bool { return bustest.Messages(t, direct, bus.Results) > 0 })
	cancel()
	select {
	case outcomes := <-done:
		for i, o := range outcomes {
			if !errors.Is(o.err, context.Canceled) {
				t.Fatalf("publish %d: %+v", i, o)
			}
		}
	case <-time.After(bustest.Timeout):
		t.Fatal("cancelled publishes wait")
	}
	p.Cut()
	p.Heal()
	for _, count := range []int{200, 1} {
		for i, o := range publishTogether(t.Context(), b, newResults(b, fmt.Sprint("later", count), count)) {
			if o.err != nil && !errors.Is(o.err, bus.ErrSubjectExists) { // an acknowledgement may be lost
				t.Errorf("publish %d of %d: %v", i, count, o.err)
			}
		}
	}
}

// If the acknowledgement of a batch is lost, each message is published again, and its
// subject prevents a second one.
func TestBatchSurvivesLostAck(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*bustest.Proxy){
		"reconnect": func(p *bustest.Proxy) { p.Cut() },
		"timeout":   func(*bustest.Proxy) { time.Sleep(700 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			s := bustest.Start(t, embedded.Config{Listen: "127.0.0.1:0"})
			direct := bustest.Connect(t, s, bus.Config{})
			p := bustest.NewProxy(t, s)
			b := p.Connect(t)
			messages := newResults(b, "s", 200)
			for i := range 100 {
				messages = append(messages, bus.Message{Subject: b.Call("default", "echo", "s", fmt.Sprint("c", i)), Body: []byte("x")})
			}
			p.DropReplies()
			done := make(chan []outcome)
			go func() { done <- publishTogether(t.Context(), b, messages) }()
			bustest.WaitUntil(t, "a batch", func() bool {
				_, results := stored(t, direct, bus.Results)
				_, calls := stored(t, direct, bus.Calls)
				return results > 0 && calls > 0
			})
			lose(p)
			p.Heal()
			for i, o := range <-done {
				if o.err != nil && !errors.Is(o.err, bus.ErrSubjectExists) {
					t.Errorf("publish %d: %+v", i, o)
				}
			}
			results, _ := stored(t, direct, bus.Results)
			calls, _ := stored(t, direct, bus.Calls)
			if len(results) != 200 || len(calls) != 100 {
				t.Errorf("%d results, %d calls", len(results), len(calls))
			}
		})
	}
}
