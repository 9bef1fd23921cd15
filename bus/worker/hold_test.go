package worker_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
	if res.Output != nil { // it stores the text
		text, _, err := res.Output.Text(4 << 20)
		return &tools.Result{ForLLM: fmt.Sprintf("%d %x", len(text), sha256.Sum256([]byte(text))), IsError: res.IsError}, err
	}
	return s.Plain.Result(ctx, call, def, res)
}

func (s returningStore) Raw(ctx context.Context, raw tools.RawEvent) (*tools.Result, error) {
	select {
	case s.raw <- raw:
	default:
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.Plain.Raw(ctx, raw)
}

// A result waits on the bus while the store fails, and is that of its call: with its digest, its start and
// its session, after one run.
func TestResultWaitsOnTheBus(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
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
	})
}

// A worker that put a result on the bus died before it acknowledged the call. The claim of the once-only call
// does not make its outcome unknown.
func TestResultThatWaitsIsNotUnknown(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
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
	})
}

// A result that is larger than a message waits in an object, with its note, and survives its worker. The
// object goes when the result is stored.
func TestLargeResultWaitsOnTheBus(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		text := strings.Repeat("0123456789abcde\n", 1<<17) // 2 MiB
		store := returningStore{back: new(atomic.Bool), raw: make(chan tools.RawEvent, 1), hold: make(chan struct{})}
		runs := new(atomic.Int64)
		tool, err := tools.NewTool("big", "prints 2 MiB", func(context.Context, tools.Call, struct{}) *tools.Result {
			runs.Add(1)
			out := tools.NewOutput(tools.OutputLimits{})
			_, _ = out.Write([]byte(text))
			out.Note("exit code 3")
			return &tools.Result{Output: out, IsError: true}
		})
		if err != nil {
			t.Fatal(err)
		}
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		stop := workertest.Start(t, b, store, worker.Config{Grace: time.Millisecond}, tool)
		submit(t, b, short("default", "big"), `{"id":"a","session":"s"}`)
		<-store.raw // a worker has the held result, and dies with it
		stop()
		close(store.hold)
		store.back.Store(true)
		workertest.Start(t, b, returningStore{back: store.back, raw: store.raw}, worker.Config{}, tool)
		got, _ := bustest.Next[tools.ResultEvent](t, results)
		text += "exit code 3"
		want := fmt.Sprintf("%d %x", len(text), sha256.Sum256([]byte(text)))
		if got.ForLLM != want || got.Outcome != tools.Failed || runs.Load() != 1 {
			t.Errorf("after %d runs: %s %q, want %q", runs.Load(), got.Outcome, got.ForLLM, want)
		}
		bustest.WaitUntil(t, "the object to go", func() bool {
			objects, err := b.JetStream().ObjectStore(t.Context(), b.BucketName(bus.BlobsBucket))
			if err != nil {
				t.Fatal(err)
			}
			_, err = objects.GetInfo(t.Context(), "s/held-a")
			return errors.Is(err, jetstream.ErrObjectNotFound)
		})
	})
}

// A once-only call is submitted again while its result waits on the bus. It does not run again.
func TestHeldCallIsSubmittedAgain(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		for _, own := range []bool{true, false} { // the worker that has the held result, and another one
			b := bustest.New(t)
			store := returningStore{back: new(atomic.Bool), raw: make(chan tools.RawEvent, 1), hold: make(chan struct{})}
			runs := new(atomic.Int64)
			results := bustest.Subscribe(t, b, "stevedore.result.>")
			stop := workertest.Start(t, b, store, worker.Config{Grace: time.Millisecond}, echo(t, "echo", tools.Once, runs, nil))
			submit(t, b, short("default", "echo"), `{"id":"a","session":"s","args":{"text":"x"}}`)
			<-store.raw
			gone := func() bool {
				last, err := b.Last(t.Context(), bus.Calls, b.Call("default", "echo", "s", "a"))
				return err == nil && last.Sequence == 0
			}
			bustest.WaitUntil(t, "the call to be removed", gone)
			if !own {
				stop()
				workertest.Start(t, b, store, worker.Config{}, echo(t, "echo", tools.Once, runs, nil))
			}
			submit(t, b, short("default", "echo"), `{"id":"a","session":"s","args":{"text":"x"}}`)
			store.back.Store(true)
			close(store.hold)
			if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Completed || runs.Load() != 1 {
				t.Errorf("own %v: after %d runs: %+v", own, runs.Load(), got)
			}
			bustest.WaitUntil(t, "the second call to end", gone)
			if runs.Load() != 1 {
				t.Errorf("own %v: the second call ran", own)
			}
		}
	})
}
