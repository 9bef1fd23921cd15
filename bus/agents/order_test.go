package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/session"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// started returns the runs of a session in the order in which they started.
func started(t *testing.T, b *bus.Bus, id string) (runs []string) {
	t.Helper()
	bodies, _, err := session.New(b).Read(t.Context(), tools.TokenOf(id), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		e, err := agent.DecodeEntry(body)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == agent.KindUser {
			runs = append(runs, e.Run)
		}
	}
	return runs
}

// earlierOf returns the prompts that a run waits for.
func earlierOf(t *testing.T, b *bus.Bus, run string) (earlier []string) {
	t.Helper()
	for id, err := range (busCaller{b}).earlier(t.Context(), "s", run) {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(earlier, id) {
			earlier = append(earlier, id)
		}
	}
	return earlier
}

// submitAll submits prompts one after the other, and then waits for all answers.
func submitAll(t *testing.T, b *bus.Bus, id string, prompts int) (want []string, took *sync.Map, wait func()) {
	took = new(sync.Map)
	t.Helper()
	var answers sync.WaitGroup
	for i := range prompts {
		run := fmt.Sprintf("m%d", i)
		want = append(want, run)
		answers.Go(func() {
			event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt(id, run, "plain"))
			if err != nil || event.ForLLM != "answer" {
				t.Errorf("%s: %q, %v", run, event.ForLLM, err)
			}
			took.Store(run, time.Duration(event.DurationMS)*time.Millisecond)
		})
		bustest.WaitUntil(t, "the prompt to be accepted", func() bool {
			for _, err := range b.Read(t.Context(), bus.Calls, bus.Query{Subject: b.Call("*", agent.AgentTool, id, run), Limit: 1}) {
				return err == nil
			}
			if _, parked, err := task.ReadParked(t.Context(), b, tools.CallKey{Session: id, ID: run}); parked && err == nil {
				return true
			}
			return slices.Contains(started(t, b, id), run)
		})
	}
	return want, took, answers.Wait
}

// A prompt waits for those before it, also if there are more than are read at once.
func TestPromptBehindAThousand(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	const before = 1001
	for i := range before + 1 {
		if _, err := b.JetStream().PublishAsync(b.Call(bus.AgentQueue, agent.AgentTool, "s", fmt.Sprint("m", i)), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	<-b.JetStream().PublishAsyncComplete()
	if earlier := earlierOf(t, b, fmt.Sprint("m", before)); len(earlier) != before || earlier[0] != "m0" {
		t.Errorf("it waits for %d prompts", len(earlier))
	}
}

// A message that cannot be decoded becomes a dead letter without a result. While it stays in the stream, because an earlier
// call of the queue runs for long, no prompt waits for it.
func TestPromptAfterOneThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for id, body := range map[string]string{"damaged": "no JSON", "wrong": `{"tool":5}`} { // the second one gets a result
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call(bus.AgentQueue, agent.AgentTool, "s", id), Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt("s", "m", "plain")); err != nil {
		t.Fatal(err)
	}
	if earlier := earlierOf(t, b, "m"); !slices.Equal(earlier, []string{"wrong"}) {
		t.Errorf("it waits for %q", earlier)
	}
}

// A prompt waits for an earlier one that was published again behind a thousand others, as after an outage of the provider.
func TestPromptBeforeAThousandThatWasPublishedAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := task.Parked{Call: prompt("s", "m0", "plain"), Queue: bus.AgentQueue, State: task.Waiting}
	accepted, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, p.Call)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1001 {
		if _, err := b.JetStream().PublishAsync(b.Call(bus.AgentQueue, agent.AgentTool, "s", fmt.Sprint("m", i+1)), []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	<-b.JetStream().PublishAsyncComplete()
	p.Order = accepted.Sequence
	if p.Number, err = task.Park(t.Context(), b, p); err == nil {
		err = errors.Join(b.Delete(t.Context(), bus.Calls, accepted.Sequence), task.Resume(t.Context(), b, p))
	}
	if err != nil {
		t.Fatal(err)
	}
	if earlier := earlierOf(t, b, "m1"); !slices.Equal(earlier, []string{"m0"}) {
		t.Errorf("it waits for %q", earlier)
	}
}

// A prompt waits for one before it also while that one moves between the stream of calls and its
// record, because its run is parked and goes on at once. While the prompt itself moves, nobody
// knows its place, so it waits for all.
func TestPromptsInOrderWhileOneMoves(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	orders := map[string]uint64{}
	for _, id := range []string{"m0", "m1"} {
		accepted, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt("s", id, "plain"))
		if err != nil {
			t.Fatal(err)
		}
		orders[id] = accepted.Sequence
	}
	if earlier := earlierOf(t, b, "moves"); !slices.Equal(earlier, []string{"m0", "m1"}) {
		t.Errorf("a prompt in no place waits for %q", earlier)
	}
	for i := range 600 { // the records are read in several parts
		call := tools.Call{ID: fmt.Sprint("c", i), Session: "s", Tool: "x"}
		if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: "idle", State: task.Waiting}); err != nil {
			t.Fatal(err)
		}
	}
	var moved atomic.Bool
	var moving sync.WaitGroup
	defer moving.Wait()
	moving.Go(func() {
		defer moved.Store(true)
		p := task.Parked{Call: prompt("s", "m0", "plain"), Queue: bus.AgentQueue, State: task.Waiting, Order: orders["m0"]}
		for range 100 {
			m, err := b.Last(t.Context(), bus.Calls, b.Call(bus.AgentQueue, agent.AgentTool, "s", "m0"))
			if err == nil {
				p.Number, err = task.Park(t.Context(), b, p)
			}
			err = errors.Join(err, b.Delete(t.Context(), bus.Calls, m.Sequence))
			time.Sleep(2 * time.Millisecond)
			if err = errors.Join(err, task.Resume(t.Context(), b, p)); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	})
	for !moved.Load() {
		if earlier := earlierOf(t, b, "m1"); !slices.Equal(earlier, []string{"m0"}) {
			t.Fatalf("it waits for %q", earlier)
		}
	}
}

// The prompts of a session run in the order in which they were accepted, although several
// workers take them at once.
func TestPromptsRunInOrder(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for i := range 5 {
		id := fmt.Sprint("s", i)
		var stop []func()
		want, _, wait := submitAll(t, b, id, 5)
		for range 2 {
			stop = append(stop, startModel(t, b, newUnreliable(t, overloaded, time.Time{}, `{"text":"answer"}`, `{"text":"answer"}`, `{"text":"answer"}`, `{"text":"answer"}`, `{"text":"answer"}`), worker.Config{Slots: 8}))
		}
		wait()
		if got := started(t, b, id); !slices.Equal(got, want) {
			t.Errorf("ran %v, want %v", got, want)
		}
		for _, stop := range stop {
			stop()
		}
	}
}

// The order stays while a run of the session is parked, and when the workers restart.
func TestPromptsRunInOrderAfterOutage(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		model := newUnreliable(t, overloaded, time.Now().Add(10*time.Minute), `{"text":"answer"}`, `{"text":"answer"}`, `{"text":"answer"}`, `{"text":"answer"}`, `{"text":"answer"}`)
		stop := startModel(t, b, model, worker.Config{Slots: 8})
		want, took, wait := submitAll(t, b, "s", 5)
		time.Sleep(5 * time.Minute)
		stop()
		startModel(t, b, model, worker.Config{Slots: 8})
		startModel(t, b, model, worker.Config{Slots: 8})
		wait()
		if got := started(t, b, "s"); !slices.Equal(got, want) {
			t.Errorf("ran %v, want %v", got, want)
		}
		// The duration of a run contains its waits.
		if d, _ := took.Load("m0"); d.(time.Duration) < 9*time.Minute {
			t.Errorf("the run took %v, although its model was down for ten minutes", d)
		}
	})
}

// The order stays while the first prompt, or a call of its run, waits for an approval, also if
// somebody answers while no worker runs.
func TestPromptsRunInOrderAfterApproval(t *testing.T) {
	for name, waits := range map[string]func(tools.Call) bool{
		"prompt":          func(call tools.Call) bool { return call.ID == "m0" },
		"call of the run": func(call tools.Call) bool { return call.Tool == "danger" },
	} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.New(t)
				danger, err := tools.NewTool("danger", "For the test.", func(context.Context, tools.Call, struct{}) *tools.Result { return tools.NewToolResult("done") })
				if err != nil {
					t.Fatal(err)
				}
				lines := slices.Repeat([]string{`{"text":"answer"}`}, 6)
				lines[0] = `{"tools":[{"name":"danger"}]}`
				cfg := worker.Config{Slots: 8, Approvals: approvals.Rules{Needed: waits}}
				model := newUnreliable(t, overloaded, time.Time{}, lines...)
				stop := startModel(t, b, model, cfg, danger)
				want, _, wait := submitAll(t, b, "s", 5)
				time.Sleep(10 * time.Minute)
				stop()
				open, err := approvals.List(t.Context(), b, "s")
				if err != nil || len(open) != 1 {
					t.Fatalf("open approvals: %+v, %v", open, err)
				}
				if _, err := approvals.Answer(t.Context(), b, tools.CallKey{Session: "s", ID: open[0].ID}, task.Answer{Approve: true}); err != nil {
					t.Fatal(err)
				}
				startModel(t, b, model, cfg, danger)
				startModel(t, b, model, cfg, danger)
				wait()
				if got := started(t, b, "s"); !slices.Equal(got, want) {
					t.Errorf("ran %v, want %v", got, want)
				}
			})
		})
	}
}
