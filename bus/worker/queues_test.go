package worker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// A queue whose calls fill all slots takes none of those of another queue of the same worker.
func TestFullQueueTakesNoSlotOfAnother(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		release := make(chan struct{})
		start(t, b, worker.Config{Slots: 1, Queues: []string{"flooded", "calm"}},
			echo(t, "slow", tools.Idempotent, &runs, func() { <-release }), echo(t, "quick", tools.Idempotent, &runs, nil))
		results := bustest.Subscribe(t, b, b.Result("s", "calm"))
		for i := range 20 {
			submit(t, b, short("flooded", "slow"), fmt.Sprintf(`{"id":"f%d","session":"s","args":{"text":"x"}}`, i))
		}
		bustest.WaitUntil(t, "a call of the flood", func() bool { return runs.Load() == 1 })
		submit(t, b, short("calm", "quick"), `{"id":"calm","session":"s","args":{"text":"y"}}`)
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ForLLM != "y" {
			t.Errorf("result %+v", got)
		}
		if n := bustest.Waiting(t, b); n < 19 {
			t.Errorf("%d calls of the flood wait", n)
		}
		close(release)
		waitEmpty(t, b)
	})
}

// Somebody deletes the consumer of a queue while its calls run. The next consumer delivers them anew, to another worker too,
// and they do not run twice.
func TestConsumerIsDeletedWhileCallsRun(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		release := make(chan struct{})
		for _, name := range []string{"w1", "w2"} {
			start(t, b, worker.Config{Name: name}, echo(t, "slow", tools.Idempotent, &runs, func() { <-release }))
		}
		const calls = 6
		for i := range calls {
			submit(t, b, short("default", "slow"), fmt.Sprintf(`{"id":"c%d","args":{"text":"x"}}`, i))
		}
		time.Sleep(time.Second)
		if err := b.JetStream().DeleteConsumer(t.Context(), b.StreamName(bus.Calls), b.WorkerConsumer(bus.DefaultQueue).Name); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		start(t, b, worker.Config{Name: "w3"}, echo(t, "slow", tools.Idempotent, &runs, nil))
		submit(t, b, short("default", "slow"), `{"id":"later","args":{"text":"x"}}`)
		time.Sleep(time.Minute)
		close(release)
		waitEmpty(t, b)
		if n := runs.Load(); n != calls+1 {
			t.Errorf("%d calls ran %d times", calls+1, n)
		}
	})
}

// The worker of the server's process does not take a call for one of a dead process that another worker runs, which has come
// since its start.
func TestCallOfAWorkerThatCameLater(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		release := map[string]chan struct{}{"first": make(chan struct{}), "second": make(chan struct{})}
		next := func(name string, ownServer bool) {
			start(t, b, worker.Config{Name: name, Slots: 1, OwnServer: ownServer}, echo(t, "slow", tools.Idempotent, &runs, func() { <-release[name] }))
			time.Sleep(time.Second)
		}
		for _, id := range []string{"a", "b"} {
			submit(t, b, short("default", "slow"), fmt.Sprintf(`{"id":%q,"args":{"text":"x"}}`, id))
		}
		time.Sleep(time.Second)
		next("first", true)
		next("second", false)
		if err := b.JetStream().DeleteConsumer(t.Context(), b.StreamName(bus.Calls), b.WorkerConsumer(bus.DefaultQueue).Name); err != nil {
			t.Fatal(err)
		}
		close(release["first"]) // it makes the consumer again, and gets both calls
		time.Sleep(time.Minute)
		if n := runs.Load(); n != 2 {
			t.Errorf("2 calls ran %d times", n)
		}
		close(release["second"])
		waitEmpty(t, b)
	})
}
