package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

type nothing struct{}

// tool returns a tool that calls run with each call.
func tool(t *testing.T, name string, effect tools.Effect, run func(c tools.Call) string) tools.Tool {
	t.Helper()
	made, err := tools.NewTool(name, "for a test", func(_ context.Context, c tools.Call, _ nothing) *tools.Result {
		return tools.NewToolResult(run(c))
	})
	if err != nil {
		t.Fatal(err)
	}
	return made.WithEffect(effect)
}

// waiting returns how many calls of the default queue the server has delivered to no worker.
func waiting(t *testing.T, b *bus.Bus) uint64 {
	t.Helper()
	info, _, err := b.ConsumerInfo(t.Context(), b.WorkerConsumer("default"))
	if err != nil {
		t.Fatal(err)
	}
	return info.NumPending
}

// Two workers take turns with the sessions of a queue, and run each call once.
func TestSessionsTakeTurns(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		const flood, calm = 1500, 20
		s := bustest.Server(t)
		var (
			mu           sync.Mutex
			runs         = map[tools.CallKey]int{}
			floods, rest atomic.Int64
		)
		run := func(c tools.Call) string {
			mu.Lock()
			runs[tools.CallKey{Session: c.Session, ID: c.ID}]++
			mu.Unlock()
			time.Sleep(5 * time.Millisecond) // what a tool does
			if c.Session == "flood" {
				floods.Add(1)
			} else {
				rest.Add(1)
			}
			return "done"
		}
		b := bustest.Connect(t, s, bus.Config{})
		for i := range flood {
			tool := []string{"work", "write"}[i%2]
			if _, err := b.JetStream().PublishAsync(b.Call("default", tool, "flood", fmt.Sprint(i)), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		<-b.JetStream().PublishAsyncComplete()
		for range 2 {
			start(t, bustest.Dial(t, s, bus.Config{}), worker.Config{Slots: 2}, tool(t, "work", tools.Idempotent, run), tool(t, "write", tools.Once, run))
		}
		for i := range calm {
			submit(t, b, b.Call("default", []string{"work", "write"}[i%2], fmt.Sprint("calm", i%3), fmt.Sprint(i)), "{}")
		}
		bustest.WaitUntil(t, "the calm sessions", func() bool { return rest.Load() == calm })
		if n := floods.Load(); n > flood*9/10 {
			t.Errorf("%d calls of the flood ran before the others", n)
		}
		bustest.WaitUntil(t, "the flood", func() bool { return floods.Load() == flood })
		waitEmpty(t, b)
		mu.Lock()
		defer mu.Unlock()
		for k, n := range runs {
			if n != 1 {
				t.Errorf("call %s of session %s ran %d times", k.ID, k.Session, n)
			}
		}
		if len(runs) != flood+calm {
			t.Errorf("%d calls ran", len(runs))
		}
	})
}

// A worker runs a call ahead. If it lives, the call does not run a second time when the
// consumer delivers it to another worker. If it died, the other worker runs it.
func TestCallThatRunsAhead(t *testing.T) {
	t.Parallel()
	for _, isolated := range []bool{false, true} {
		t.Run(fmt.Sprint("isolated=", isolated), func(t *testing.T) {
			t.Parallel()
			s := bustest.Listen(t)
			proxy := bustest.NewProxy(t, s)
			b := bustest.Connect(t, s, bus.Config{Lease: time.Second})
			floodGate, calmGate := make(chan struct{}), make(chan struct{})
			var first, second atomic.Int64
			begun := make(chan struct{}, 1)
			stop := start(t, proxy.Connect(t), worker.Config{Slots: 2}, tool(t, "work", tools.Idempotent, func(c tools.Call) string {
				if c.Session == "calm" {
					first.Add(1)
					begun <- struct{}{}
					<-calmGate
				} else {
					<-floodGate
				}
				return "first"
			}))
			results := bustest.Subscribe(t, b, b.Stored(b.Result("calm", "c")))
			for i := range 40 {
				submit(t, b, b.Call("default", "work", "flood", fmt.Sprint(i)), "{}")
			}
			submit(t, b, b.Call("default", "work", "calm", "c"), "{}")
			for ahead := false; !ahead; { // a slot gets free now and then, until the session has its turn
				select {
				case <-begun:
					ahead = true
				case <-time.After(500 * time.Millisecond):
					floodGate <- struct{}{}
				}
			}
			if n := waiting(t, b); n == 0 {
				t.Fatal("the call was not ahead")
			}
			if shown, err := task.Get(t.Context(), b, "calm", "c"); err != nil || shown.State != task.Running {
				t.Errorf("the call is shown as %+v, %v", shown, err)
			}
			if isolated {
				proxy.Hold()
			}
			ask := 10 * time.Second // on a busy machine the first worker answers late
			if isolated {
				ask = 100 * time.Millisecond // it does not answer
			}
			start(t, b, worker.Config{Slots: 2, AskTimeout: ask}, tool(t, "work", tools.Idempotent, func(c tools.Call) string {
				if c.Session == "calm" {
					second.Add(1)
				}
				return "second"
			}))
			if !isolated {
				bustest.WaitUntil(t, "the call in the order of the queue", func() bool { return waiting(t, b) == 0 })
				close(calmGate)
			}
			got, _ := bustest.Next[tools.ResultEvent](t, results)
			if want := map[bool]string{false: "first", true: "second"}[isolated]; got.ForLLM != want {
				t.Errorf("result %q, want that of the %s worker", got.ForLLM, want)
			}
			close(floodGate)
			if isolated {
				close(calmGate)
				proxy.Heal()
			}
			waitEmpty(t, b)
			stop()
			if first.Load() != 1 || !isolated && second.Load() != 0 {
				t.Errorf("it ran %d times in the first worker and %d times in the second", first.Load(), second.Load())
			}
		})
	}
}

// After a restart of the server, the library needs up to 10 s until the worker hears of changed records again. A call that another
// worker took ahead meanwhile does not run again, and one that was cancelled does not run.
func TestRecordsAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	cfg := embedded.Config{Dir: t.TempDir(), Listen: bustest.FreeAddress(t), NoSync: true}
	s := bustest.Start(t, cfg)
	b, err := bus.Connect(t.Context(), bus.Config{Server: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
		t.Fatal(err)
	}
	ran, release := make(chan string, 10), make(chan struct{})
	start(t, b, worker.Config{Slots: 1}, tool(t, "work", tools.Idempotent, func(c tools.Call) string {
		ran <- c.ID
		<-release
		return "done"
	}))
	submit(t, b, b.Call("default", "work", "s", "first"), "{}")
	<-ran
	s.Close()
	s = bustest.Start(t, cfg)
	other := bustest.Dial(t, s, bus.Config{})
	publish := func(subject string, v any) uint64 {
		body, err := bus.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		ack, err := other.Publish(t.Context(), bus.Message{Subject: subject, Body: body, Header: nats.Header{bus.FreshHeader: {"1"}}})
		if err != nil {
			t.Fatal(err)
		}
		return ack.Sequence
	}
	ahead := tools.Call{ID: "ahead", Session: "s", Tool: "work"}
	sequence := publish(b.Call("default", "work", "s", "ahead"), ahead)
	if taken, err := task.TakeAhead(t.Context(), other, tools.CallKey{Session: "s", ID: "ahead"}, sequence); err != nil || !taken {
		t.Fatal(taken, err)
	}
	publish(b.Result("s", "ahead"), tools.NewResultEvent(ahead, tools.NewToolResult("done")))
	publish(b.Call("default", "work", "s", "cancelled"), tools.Call{})
	if err := task.RecordCancellation(t.Context(), other, "s", "cancelled"); err != nil {
		t.Fatal(err)
	}
	close(release)
	waitEmpty(t, other)
	close(ran)
	for id := range ran {
		t.Errorf("call %s ran", id)
	}
}
