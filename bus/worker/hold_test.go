package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// returningStore is an Offloader whose store fails until it is back. Raw results arrive when the result of
// a call is on the bus.
type returningStore struct {
	workertest.Plain
	back *atomic.Bool
	raw  chan tools.RawEvent
	hold chan struct{} // closed when raw results are taken; nil means now
}

func (s returningStore) Result(ctx context.Context, call tools.Call, def tools.Definition, res *tools.Result) (*tools.Result, error) {
	if !s.back.Load() {
		return nil, errors.New("the store is away")
	}
	return s.Plain.Result(ctx, call, def, res)
}

func (s returningStore) Raw(ctx context.Context, raw tools.RawEvent) (*tools.Result, error) {
	select {
	case s.raw <- raw:
	default:
	}
	if s.hold != nil {
		<-s.hold
	}
	return s.Plain.Raw(ctx, raw)
}

// A result waits on the bus while the store fails, and is that of its call: with its digest, its start and
// its session, after one run.
func TestResultWaitsOnTheBus(t *testing.T) {
	b := bustest.New(t)
	store := returningStore{back: new(atomic.Bool), raw: make(chan tools.RawEvent, 1)}
	runs := new(atomic.Int64)
	register := new(trouble.Register)
	registry := tools.NewRegistry(bustest.Log(t))
	if err := registry.Register(echo(t, "echo", tools.Once, runs, nil)); err != nil {
		t.Fatal(err)
	}
	w := worker.New(b, registry, store, worker.Config{Log: bustest.Log(t)})
	bustest.Run(t, func(ctx context.Context) error { return w.Run(register.With(ctx)) })
	call := tools.Call{ID: "a", Session: "s", Tool: "echo", Args: []byte(`{"text":"x"}`)}
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	submit(t, b, short("default", "echo"), `{"id":"a","session":"s","args":{"text":"x"}}`)
	raw := <-store.raw
	if list := register.List(); len(list) != 1 || list[0].Kind != trouble.Store {
		t.Errorf("reported: %+v", list)
	}
	if waiting, err := task.Get(t.Context(), b, "s", "a"); err != nil || waiting.State != task.Running && waiting.State != task.Queued {
		t.Errorf("while the result waits: %+v, %v", waiting, err)
	}
	if lost, err := task.IsLost(t.Context(), b, tools.CallKey{Session: "s", ID: "a"}); lost || err != nil {
		t.Errorf("while the result waits, it is lost: %v, %v", lost, err)
	}
	store.back.Store(true)
	got, _ := bustest.Next[tools.ResultEvent](t, results)
	if got.ForLLM != *raw.ForLLM || got.Outcome != tools.Completed || got.Digest != call.Digest() || got.StartedAt.IsZero() || got.Session != "s" {
		t.Errorf("result %+v", got)
	}
	if list := register.List(); len(list) != 0 {
		t.Errorf("still reported: %+v", list)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A worker that put a result on the bus died before it acknowledged the call. The claim of the once-only call
// does not make its outcome unknown.
func TestResultThatWaitsIsNotUnknown(t *testing.T) {
	b := bustest.New(t)
	runs := new(atomic.Int64)
	call := tools.Call{ID: "a", Session: "s", Tool: "echo", Args: []byte(`{"text":"x"}`)}
	claim, err := bus.Encode(task.Claim{Worker: "dead", Process: "dead", Nonce: "n", Digest: call.Digest()})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []bus.Message{
		{Subject: b.Claim("s", "a"), Body: claim},
		{Subject: b.Call("default", "echo", "s", "a"), Body: []byte(`{"args":{"text":"x"}}`)},
		{Subject: b.Raw("default", "echo", "s", "a"), Body: []byte(`{"args":{"text":"x"},"for_llm":"it ran"}`)},
	} {
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	store := returningStore{back: new(atomic.Bool), raw: make(chan tools.RawEvent, 1), hold: make(chan struct{})}
	workertest.Start(t, b, store, worker.Config{}, echo(t, "echo", tools.Once, runs, nil))
	bustest.WaitUntil(t, "the call to end before its result", func() bool {
		info, ok, err := b.ConsumerInfo(t.Context(), b.WorkerConsumer("default"))
		return ok && err == nil && info.NumPending == 0 && info.NumAckPending == 1
	})
	store.back.Store(true)
	close(store.hold)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ForLLM != "it ran" || runs.Load() != 0 {
		t.Errorf("after %d runs: %+v", runs.Load(), got)
	}
}
