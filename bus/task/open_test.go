package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// Each page has at most the limit, also of parked calls, and all pages have each call once, whether
// the calls of the pages before were cancelled or not.
func TestOpenCallsInPages(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for i := range 5 {
		call := tools.Call{ID: fmt.Sprint("parked-", i), Session: "s", Tool: "x"}
		if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: bus.DefaultQueue, State: task.Waiting, Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		waiting := tools.Call{ID: fmt.Sprint("waits-", i), Session: "s", Tool: "x"}
		body, err := bus.Encode(waiting)
		if err == nil {
			_, err = b.Publish(t.Context(), bus.Message{Subject: b.Call(bus.DefaultQueue, "x", "s", waiting.ID), Body: body})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	found, pages := map[string]int{}, 0
	for after := uint64(0); pages == 0 || after > 0; pages++ {
		calls, next, err := task.ListOpen(t.Context(), b, after, 2, func(task.Task) bool { return true })
		if err != nil || len(calls) > 2 || pages > 10 {
			t.Fatalf("page %d has %v, %v", pages, calls, err)
		}
		for _, k := range calls {
			found[k.ID]++
		}
		after = next
	}
	if len(found) != 10 {
		t.Errorf("found %v", found)
	}
	for id, n := range found {
		if n != 1 {
			t.Errorf("%s is on %d pages", id, n)
		}
	}
}

// A call that begins to wait after its part of the list was read, or goes on before its record is read, is on a later page.
func TestOpenCallsThatMoveBetweenPages(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	open := func(id string) task.Parked {
		call := tools.Call{ID: id, Session: "s", Tool: "x"}
		accepted, err := rpc.Enqueue(t.Context(), b, "idle", call)
		if err != nil {
			t.Fatal(err)
		}
		return task.Parked{Call: call, Queue: "idle", State: task.Waiting, Until: time.Now().Add(time.Hour), Order: accepted.Sequence}
	}
	park := func(p *task.Parked) {
		var err error
		if p.Number, err = task.Park(t.Context(), b, *p); err == nil {
			err = b.Delete(t.Context(), bus.Calls, p.Order)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stays, waits, goesOn, ran := open("stays"), open("waits"), open("goes-on"), open("ran")
	park(&ran) // lately; its result waits to be offloaded
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Raw("idle", "x", "s", "ran"), Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := task.Resume(t.Context(), b, ran); err != nil {
		t.Fatal(err)
	}
	m, err := b.Last(t.Context(), bus.Calls, b.Call("idle", "x", "s", "ran"))
	if err == nil {
		err = b.Delete(t.Context(), bus.Calls, m.Sequence)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, after := map[string]int{}, uint64(0)
	for pages := 0; pages == 0 || after > 0; pages++ {
		calls, next, err := task.ListOpen(t.Context(), b, after, 1, func(t task.Task) bool { return t.Tool == "x" })
		if err != nil || pages > 10 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, k := range calls {
			found[k.ID]++
			if k.ID == stays.Call.ID {
				park(&waits)
				park(&goesOn)
			} else if k.ID == waits.Call.ID {
				if err := task.Resume(t.Context(), b, goesOn); err != nil {
					t.Fatal(err)
				}
			}
		}
		after = next
	}
	if fmt.Sprint(found) != "map[goes-on:1 stays:1 waits:1]" {
		t.Errorf("found %v", found)
	}
}

// A worker that stands still reports no call. Those that it took are open until they have a final result.
func TestOpenCallsOfASilentWorker(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, id := range []string{"taken", "ended", "background", "waits"} {
		if _, err := rpc.Enqueue(t.Context(), b, "", tools.Call{ID: id, Session: "s", Tool: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	cons, err := b.Consumer(t.Context(), b.WorkerConsumer(bus.DefaultQueue))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := cons.Next(); err != nil {
			t.Fatal(err)
		}
	}
	for id, outcome := range map[string]tools.Outcome{"ended": tools.Completed, "background": tools.Async} {
		body, err := bus.Encode(tools.ResultEvent{ID: id, Session: "s", Tool: "x", Outcome: outcome})
		if err == nil {
			_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", id), Body: body})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	calls, next, err := task.ListOpen(t.Context(), b, 0, 10, func(task.Task) bool { return true })
	if names := fmt.Sprint(calls); err != nil || next != 0 || names != "[{s taken} {s background} {s waits}]" {
		t.Errorf("the open calls are %s, %d, %v", names, next, err)
	}
}
