package status_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/status"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
)

// The status names ticks that no worker asks for, with a consumer and without, and none that a worker took.
func TestTicksWithoutWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		waiting := func(n int) bool {
			return problem(status.Read(t.Context(), b), fmt.Sprint("No worker takes the ticks of jobs and heartbeats. Ticks that wait: ", n))
		}
		tick := func(name string) {
			t.Helper()
			if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Tick(bus.Cron, name), Body: []byte(`{"tool":"none"}`)}); err != nil {
				t.Fatal(err)
			}
		}
		if problem(status.Read(t.Context(), b), "ticks") {
			t.Error("ticks wait before the first one")
		}
		tick("a")
		if !waiting(1) {
			t.Error("without a consumer")
		}
		bustest.Consumers(t, b, b.TickConsumer())
		tick("b")
		bustest.WaitUntil(t, "both ticks", func() bool { return waiting(2) }) // the server counts them later than it answers
		dies(t, b, b.TickConsumer())
		if !waiting(2) {
			t.Error("after the death of a worker that had one")
		}
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Ticks: true})
		bustest.WaitUntil(t, "the ticks to be taken", func() bool { return !problem(status.Read(t.Context(), b), "ticks") })
	})
}

// dies takes a message of a consumer, and lets its lease end.
func dies(t *testing.T, b *bus.Bus, c bus.Consumer) {
	t.Helper()
	consumer, err := b.JetStream().Consumer(t.Context(), b.StreamName(c.Stream), c.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(consumer.CachedInfo().Config.AckWait)
}

// The status names notifications that no notifier moves to the default channel, and reports that none reads.
func TestNotificationsWithoutNotifier(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		waiting := func(n int) bool {
			s := status.Read(t.Context(), b)
			return problem(s, fmt.Sprint("No worker sends notifications to users. Reports and notifications that wait: ", n, ".")) && len(s.Errors) == 0
		}
		publish := func(subject string) {
			t.Helper()
			if _, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: []byte(`{"text":"hello"}`)}); err != nil {
				t.Fatal(err)
			}
		}
		named := func() bool { return problem(status.Read(t.Context(), b), "No worker sends") }
		publish(b.Report("s", "c1"))
		if named() {
			t.Error("a report is named, though no notifier ever ran")
		}
		publish(b.NotifyAny("gone"))
		if !waiting(1) {
			t.Error("without the consumer of the notifiers")
		}
		bustest.Consumers(t, b, b.NotifierConsumer(), b.ChannelConsumer("chat"))
		publish(b.NotifyAny("chat")) // named as one of the channel
		bustest.WaitUntil(t, "the report, too", func() bool { return waiting(2) })
		dies(t, b, b.NotifierConsumer())
		if !waiting(2) {
			t.Error("after the death of a notifier that had one")
		}
		n, err := notify.New(b, notify.Config{Default: "chat", Log: bustest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		bustest.Run(t, n.Run)
		bustest.WaitUntil(t, "a notifier that runs", func() bool { return !named() })
	})
}

// A program that watches the bus, or a worker that stands still, listens without an answer.
func TestNoWorkerAnswers(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		check := func(what string) {
			if s := status.Read(t.Context(), b); !problem(s, "No worker answers") || len(s.Errors) > 0 {
				t.Errorf("%s: %q, errors %q", what, s.Problems, s.Errors)
			}
		}
		check("nobody listens")
		if _, err := b.Conn().SubscribeSync("$SRV.>"); err != nil {
			t.Fatal(err)
		}
		check("a program listens")
	})
}

// The status names queues that no worker ever served, in both forms of the subject, also if
// the stream has too many subjects to list them.
func TestQueueWithoutConsumer(t *testing.T) {
	b := bustest.New(t)
	publish := func(subject string) {
		t.Helper()
		if _, err := b.JetStream().PublishAsync(subject, []byte("{}"), jetstream.WithStallWait(bustest.Timeout)); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Consumers(t, b, b.WorkerConsumer("served"))
	check := func() {
		t.Helper()
		<-b.JetStream().PublishAsyncComplete()
		s := status.Read(t.Context(), b)
		for _, want := range []string{`No worker serves the queue "long". Calls that wait for one: 3`, `No worker serves the queue "short". Calls that wait for one: 2`} {
			if !problem(s, want) || len(s.Errors) > 0 {
				t.Errorf("no problem %q in %q, errors %q", want, s.Problems, s.Errors)
			}
		}
		if problem(s, "*") {
			t.Errorf("a wildcard is a queue: %q", s.Problems)
		}
	}
	for i := range 3 {
		publish(b.Call("long", "x", "s", fmt.Sprint("c", i)))
	}
	publish(b.Call("short", "x", "s", "1"))
	publish(b.Raw("short", "y", "s", "2"))
	publish("stevedore.call.*.x.s.c")
	check()
	for i := range 6000 {
		publish(b.Call("served", "x", "s", fmt.Sprint("many", i)))
	}
	check()
	bustest.WaitUntil(t, "the first calls that wait", func() bool { // a slow server answers after Read
		return slices.ContainsFunc(status.Read(t.Context(), b).Queues, func(q status.Queue) bool {
			return q.Name == "served" && slices.Equal(q.First, []status.Backlog{{Session: "s", Calls: 200}})
		})
	})
	if n := bustest.Messages(t, b, bus.Calls); n != 6006 {
		t.Errorf("%d calls", n)
	}
}

// A status that cannot look at a consumer says so: nobody knows whether it is paused.
func TestConsumerThatCannotBeRead(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{
			{Username: "worker"},
			{Username: "reader", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.INFO.STEVEDORE_TICKS.*"}}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		connect := func(user string) *bus.Bus {
			t.Helper()
			b, err := bus.Connect(t.Context(), bus.Config{InProcess: srv, User: user, MaxBytes: 16 << 20, OnDemand: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			return b
		}
		b := connect("worker")
		if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
			t.Fatal(err)
		}
		if s := status.Read(t.Context(), b); len(s.Errors) > 0 {
			t.Errorf("without the stream of ticks: %q", s.Errors)
		}
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Tick(bus.Cron, "a"), Body: []byte(`{"tool":"none"}`)}); err != nil {
			t.Fatal(err)
		}
		bustest.Consumers(t, b, b.TickConsumer())
		const want = "consumers: look up consumer ticks of STEVEDORE_TICKS"
		const denied = "permissions violation: this user may not publish to $JS.API.CONSUMER.INFO.>"
		if s := status.Read(t.Context(), connect("reader")); len(s.Errors) != 1 || !strings.Contains(s.Errors[0], want) || !strings.HasSuffix(s.Errors[0], denied) {
			t.Errorf("the reader: %q", s.Errors)
		}
	})
}

// A worker that died has calls until its lease ends. They are neither waiting nor running.
func TestCallsOfADeadWorker(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		bustest.Consumers(t, b, b.WorkerConsumer("gpu"))
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("gpu", "train", "s", "c1"), Body: []byte(`{"id":"c1","session":"s"}`)}); err != nil {
			t.Fatal(err)
		}
		dead, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Calls), b.WorkerConsumer("gpu").Name)
		if err != nil {
			t.Fatal(err)
		}
		taken, err := dead.Next()
		if err != nil {
			t.Fatal(err)
		}
		report := map[string]any{"worker": "w", "queues": map[string]any{"gpu": map[string]int{"running": 0}}}
		bustest.Run(t, rpc.NewService(b, nil, rpc.ServiceConfig{Stats: func() any { return report }, Log: bustest.Log(t)}).Run)
		noted := func() bool {
			return strings.Contains(strings.Join(status.Read(t.Context(), b).Notes, ""), `queue "gpu" that a worker has, and that no worker names as running: 1.`)
		}
		bustest.WaitUntil(t, "the note", noted)
		if err := taken.Term(); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "no note", func() bool { return !noted() })
	})
}
