package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// A worker settles many calls behind one that runs for long, and dies before it
// removes them. The next worker removes them although the long call still runs, but no call
// without its final result: not the async one, and not one whose id has the result of
// another call.
func TestRemoveWhatADeadWorkerSettled(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Lease: 300 * time.Millisecond, Log: bustest.Log(t)})
	const calls = 1500
	submit(t, b, b.Call("default", "slow", "s", "slow"), `{"args":{"text":"x"}}`)
	for i := range calls {
		submit(t, b, b.Call("default", "slow", "s", fmt.Sprint("c", i)), `{"args":{"text":"x"}}`)
	}
	kept := map[string]tools.ResultEvent{
		"async":    {Outcome: tools.Async},
		"mismatch": {Outcome: tools.Completed, Digest: "another call"},
	}
	for id := range kept {
		submit(t, b, b.Call("default", "other", "s", id), "{}") // only the dead worker had this tool
	}
	if err := b.ProvisionConsumers(t.Context(), b.WorkerConsumer("default")); err != nil {
		t.Fatal(err)
	}
	cons, err := b.JetStream().Consumer(t.Context(), b.StreamName(bus.Calls), b.WorkerConsumer("default").Name)
	if err != nil {
		t.Fatal(err)
	}
	// On a slow machine, leases end meanwhile, and the server delivers messages again.
	settled := map[string]bool{}
	for len(settled) < calls+len(kept) {
		batch, err := cons.Fetch(100, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			subject, _ := b.SplitCall(m.Subject())
			if subject.ID == "slow" {
				continue // the worker dies while it runs this one
			}
			if !settled[subject.ID] {
				settled[subject.ID] = true
				event, ok := kept[subject.ID]
				event.ID, event.Session = subject.ID, "s"
				if !ok {
					call, err := tools.DecodeCall(m.Data())
					if err != nil {
						t.Fatal(err)
					}
					call.Tool = "slow"
					event.Outcome, event.Digest = tools.Completed, call.Digest()
				}
				body, err := bus.Encode(event)
				if err != nil {
					t.Fatal(err)
				}
				submit(t, b, b.Result("s", subject.ID), string(body))
			}
			if err := m.Ack(); err != nil {
				t.Fatal(err)
			}
		}
	}

	release := make(chan struct{})
	slow, err := tools.NewTool("slow", "runs until the test ends", func(ctx context.Context, call tools.Call, _ echoArgs) *tools.Result {
		if call.ID != "slow" {
			t.Errorf("call %s runs again", call.ID)
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return tools.UserResult("done")
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, b, worker.Config{AskTimeout: 50 * time.Millisecond}, slow)
	const leftBehind = 500 // the last ones that a worker finds may stay until the long call ends
	bustest.WaitUntil(t, "the settled calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) < 1+len(kept)+leftBehind })
	for id, tool := range map[string]string{"slow": "slow", "async": "other", "mismatch": "other"} {
		if _, ok, err := b.LastMessage(t.Context(), bus.Calls, b.Call("default", tool, "s", id)); !ok || err != nil {
			t.Errorf("call %s was removed: %v", id, err)
		}
	}
	close(release)
	bustest.WaitUntil(t, "all calls to be removed", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
}
