package worker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// Two workers of one queue offer different tools, as during a rolling update: each call
// runs once, on the worker that has its tool, and none uses up its attempts. A tool that no
// worker has is unknown.
func TestMixedWorkers(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var oldRuns, newRuns atomic.Int32
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Name: "old", MaxAttempts: 1}, countingTool(t, "old", &oldRuns))
		stop := workertest.Start(t, b, workertest.Plain{}, worker.Config{Name: "new", MaxAttempts: 1}, countingTool(t, "new", &newRuns))
		var results []<-chan tools.ResultEvent
		const calls = 8
		for i := range calls {
			for _, tool := range []string{"old", "new"} {
				results = append(results, submitCall(t, b, tools.Call{ID: fmt.Sprint(tool, i), Session: "s", Tool: tool}))
			}
		}
		for i, result := range results {
			want := []string{"old", "new"}[i%2]
			if event := <-result; event.Outcome != tools.Completed || event.Worker != want {
				t.Errorf("%s: %s by %s, want by %s: %v", event.ID, event.Outcome, event.Worker, want, event.Error)
			}
		}
		if oldRuns.Load() != calls || newRuns.Load() != calls {
			t.Errorf("%d and %d runs, want %d of each", oldRuns.Load(), newRuns.Load(), calls)
		}
		if n := bustest.Messages(t, b, bus.Dead); n > 0 {
			t.Errorf("%d dead letters", n)
		}
		stop()
		if event := <-submitCall(t, b, tools.Call{ID: "late", Session: "s", Tool: "new"}); event.Error == nil || event.Error.Code != tools.CodeUnknownTool {
			t.Errorf("a tool that no worker has: %+v", event)
		}
	})
}

// After a loss of the server, the worker that is connected first does not take a tool for unknown whose worker is back
// soon. It may be that of the process of the server.
func TestToolOfAWorkerThatIsNotBackYet(t *testing.T) {
	for _, ownServer := range []bool{false, true} {
		bustest.Bubble(t, func(t *testing.T) {
			b := bustest.New(t)
			var oldRuns, newRuns atomic.Int32
			startNew := func() (stop func()) {
				return workertest.Start(t, b, workertest.Plain{}, worker.Config{Name: "new"}, countingTool(t, "new", &newRuns))
			}
			stop := startNew()
			time.Sleep(time.Second)
			stop()
			workertest.Start(t, b, workertest.Plain{}, worker.Config{Name: "old", OwnServer: ownServer}, countingTool(t, "old", &oldRuns))
			if !ownServer {
				time.Sleep(time.Hour)
				if err := b.Conn().ForceReconnect(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			result := submitCall(t, b, tools.Call{ID: "a", Session: "s", Tool: "new"})
			time.Sleep(5 * time.Second)
			stop = startNew()
			if event := <-result; event.Outcome != tools.Completed || newRuns.Load() != 1 {
				t.Errorf("own server %t: %+v after %d runs", ownServer, event, newRuns.Load())
			}
			stop()
			time.Sleep(time.Minute)
			if event := <-submitCall(t, b, tools.Call{ID: "late", Session: "s", Tool: "new"}); event.Error == nil || event.Error.Code != tools.CodeUnknownTool {
				t.Errorf("a tool that no worker has any more: %+v", event)
			}
		})
	}
}

// Calls of a tool that no worker has do not keep the slots from other calls: with one slot, a
// call that was submitted last ends before them.
func TestUnknownToolsLeaveTheSlots(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int32
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Slots: 1}, countingTool(t, "known", &runs))
		round := 0
		bustest.WaitUntil(t, "the call of a known tool to overtake the others", func() bool {
			round++
			var results []<-chan tools.ResultEvent
			for i, tool := range []string{"nosuch", "nosuch", "nosuch", "known"} { // in this order
				call := tools.Call{ID: fmt.Sprint("c", round, "-", i), Session: "s", Tool: tool}
				if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", tool, "s", call.ID), Body: fmt.Appendf(nil, `{"id":%q,"session":"s"}`, call.ID)}); err != nil {
					t.Fatal(err)
				}
				results = append(results, submitCall(t, b, call)) // it waits for the same call
			}
			if event := <-results[3]; event.Outcome != tools.Completed {
				t.Errorf("the call of the known tool: %+v", event)
			}
			overtaken := 0
			for _, result := range results[:3] {
				select {
				case <-result:
				default:
					overtaken++
					<-result
				}
			}
			return overtaken > 1 // the slot of the last one is free while its result is published
		})
	})
}
