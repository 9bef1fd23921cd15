package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
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
