package agents

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// Cancelling a run cancels all parked calls of its turn, whether the run is parked with them
// or still waits for another call.
func TestCancelReachesAllParkedCalls(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]string{
		"parked":  `{"tools":[{"name":"danger"},{"name":"danger"},{"name":"danger"}]}`,
		"running": `{"tools":[{"name":"danger"},{"name":"danger"},{"name":"block"},{"name":"danger"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			started := make(chan struct{}, 1)
			danger, err := tools.NewTool("danger", "must not run", func(context.Context, tools.Call, struct{}) *tools.Result {
				t.Error("the tool ran")
				return tools.NewToolResult("ran")
			})
			if err != nil {
				t.Fatal(err)
			}
			block, err := tools.NewTool("block", "blocks", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result {
				started <- struct{}{}
				<-ctx.Done()
				return tools.Failure(context.Cause(ctx))
			})
			if err != nil {
				t.Fatal(err)
			}
			model := newUnreliable(t, overloaded, time.Time{}, turn, `{"text":"after all"}`)
			startModel(t, b, model, worker.Config{Approvals: approvals.Rules{Needed: func(call tools.Call) bool { return call.Tool == "danger" }}}, danger, block)
			answer := make(chan tools.ResultEvent, 1)
			go func() {
				event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", "r", "go"))
				if err != nil {
					t.Error(err)
				}
				answer <- event
			}()
			want := 4 // with the run
			if name == "running" {
				<-started
				want = 3
			}
			bustest.WaitUntil(t, "the parked calls", func() bool {
				parked, err := task.ListMoving(t.Context(), b, "*", time.Now().Add(time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				return len(parked) == want
			})
			if name == "parked" {
				p, _, err := task.ReadParked(t.Context(), b, tools.CallKey{Session: "s", ID: "r"})
				if err != nil || len(p.WaitsFor) != 3 {
					t.Errorf("the run waits for %v, %v", p.WaitsFor, err)
				}
			}
			if _, err := task.Cancel(t.Context(), b, "s", "r", "a test"); err != nil {
				t.Fatal(err)
			}
			if event := <-answer; event.Outcome != tools.Cancelled {
				t.Errorf("the run: %+v", event)
			}
			bustest.WaitUntil(t, "no parked calls", func() bool {
				parked, err := task.ListMoving(t.Context(), b, "*", time.Now().Add(time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				return len(parked) == 0
			})
			if _, err := approvals.Answer(t.Context(), b, tools.CallKey{Session: "s", ID: "r-t1-1"}, task.Answer{Approve: true}); tools.CodeOf(err) != tools.CodeNotFound {
				t.Errorf("an answer after the cancellation: %v", err)
			}
		})
	}
}

// A run that is cancelled after a worker removed its record to publish it again, or before a
// worker stores its record, leaves no parked calls.
func TestCancelBetweenRecords(t *testing.T) {
	for _, name := range []string{"published again", "not parked yet"} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.New(t)
				now := time.Now()
				child := tools.Call{ID: "child", Session: "s", Tool: "danger"}
				if _, err := task.Park(t.Context(), b, task.Parked{Call: child, Queue: "default", State: task.InputRequired, Since: now, Until: now.Add(time.Hour)}); err != nil {
					t.Fatal(err)
				}
				key := tools.CallKey{Session: "s", ID: "child"}
				if name == "not parked yet" {
					cancelled := make(chan struct{})
					tool, err := tools.NewTool("late", "returns a pause after it was cancelled", func(ctx context.Context, call tools.Call, _ struct{}) *tools.Result {
						<-cancelled
						return tools.Failure(&tools.Pause{Until: now.Add(time.Hour), WaitsFor: []tools.CallKey{key}, Made: true, Reason: "waiting"})
					})
					if err != nil {
						t.Fatal(err)
					}
					startModel(t, b, newUnreliable(t, overloaded, time.Time{}), worker.Config{}, tool.WithEffect(tools.Idempotent))
					go func() {
						_, _ = rpc.Submit(t.Context(), b, bus.DefaultQueue, tools.Call{ID: "r", Session: "s", Tool: "late"})
					}()
					bustest.WaitUntil(t, "the call", func() bool {
						_, running, err := task.FindRunning(t.Context(), b, "s", "r", time.Second)
						return err == nil && running
					})
					if _, err := task.Cancel(t.Context(), b, "s", "r", "a test"); err != nil {
						t.Fatal(err)
					}
					close(cancelled)
				} else {
					run := task.Parked{Call: prompt("s", "r", "go"), Queue: bus.AgentQueue, State: task.Waiting, Since: now, Until: now.Add(time.Hour), WaitsFor: []tools.CallKey{key}, Made: true}
					var err error
					if run.Number, err = task.Park(t.Context(), b, run); err != nil {
						t.Fatal(err)
					}
					if err := task.Resume(t.Context(), b, run); err != nil {
						t.Fatal(err)
					}
					if _, err := task.Cancel(t.Context(), b, "s", "r", "a test"); err != nil {
						t.Fatal(err)
					}
					startModel(t, b, newUnreliable(t, overloaded, time.Time{}), worker.Config{})
				}
				bustest.WaitUntil(t, "no parked calls", func() bool {
					parked, err := task.ListMoving(t.Context(), b, "*", time.Now().Add(time.Hour))
					if err != nil {
						t.Fatal(err)
					}
					return len(parked) == 0
				})
				if got, err := task.Get(t.Context(), b, "s", "child"); err != nil || got.State != task.Cancelled {
					t.Errorf("the child is %s, %v", got.State, err)
				}
			})
		})
	}
}

// A run that is cancelled after it knows that its calls are parked, and before its worker parks it, leaves no parked calls: the log of
// its other results may take long.
func TestCancelWhileTheResultsAreLogged(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		danger, err := tools.NewTool("danger", "must not run", func(context.Context, tools.Call, struct{}) *tools.Result {
			t.Error("the tool ran")
			return tools.NewToolResult("ran")
		})
		if err != nil {
			t.Fatal(err)
		}
		cancelled := false
		startSteps(t, b, mem.New(offload.StoreConfig{}), newUnreliable(t, overloaded, time.Time{}, `{"tools":[{"name":"danger"}]}`),
			worker.Config{Approvals: approvals.Rules{Needed: func(call tools.Call) bool { return call.Tool == "danger" }}}, func(step string) {
				if step != "log_answers" || cancelled {
					return
				}
				cancelled = true
				if _, err := task.Cancel(t.Context(), b, "s", "r", "a test"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // the worker hears of it
			}, danger)
		if event, err := rpc.Submit(t.Context(), b, bus.AgentQueue, prompt("s", "r", "go")); err != nil || event.Outcome != tools.Cancelled {
			t.Errorf("the run: %+v, %v", event, err)
		}
		bustest.WaitUntil(t, "the end of the question", func() bool {
			got, err := task.Get(t.Context(), b, "s", "r-t1-0")
			return err == nil && got.State == task.Cancelled
		})
	})
}

// A cancelled agent also cancels the calls that its sub-agent made and that are still parked, if the sub-agent was
// published again and no worker has continued it yet.
func TestCancelOfASubagentThatWasPublishedAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	asks, sub := tools.Call{ID: "asks", Session: "sub", Tool: "danger"}, tools.Call{ID: "sub", Session: "s", Tool: "x"}
	made := tools.CallKey{Session: "sub", ID: "asks"}
	question := task.Parked{Call: asks, Queue: "default", State: task.InputRequired, Since: time.Now(), Until: time.Now().Add(time.Hour)}
	if _, err := task.Park(t.Context(), b, question); err != nil {
		t.Fatal(err)
	}
	p := task.Parked{Call: sub, Queue: "default", State: task.Waiting, WaitsFor: []tools.CallKey{{Session: "sub", ID: "ended"}, made}, Made: true}
	var err error
	if p.Number, err = task.Park(t.Context(), b, p); err == nil {
		err = task.Resume(t.Context(), b, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(tools.Errorf(tools.CodeCancelled, "cancelled by a test"))
	if _, err := (busCaller{b}).Call(cancelled, sub); err == nil {
		t.Fatal("the call has a result")
	}
	startModel(t, b, newUnreliable(t, overloaded, time.Time{}), worker.Config{})
	bustest.WaitUntil(t, "the end of the sub-agent", func() bool {
		got, err := task.Get(t.Context(), b, "s", "sub")
		return err == nil && got.State == task.Cancelled
	})
	if got, err := task.Get(t.Context(), b, made.Session, made.ID); err != nil || got.State != task.Cancelled {
		t.Errorf("the call that it made is %s, %v", got.State, err)
	}
}

// A cancelled agent goes on to cancel a call that it made until that is recorded.
func TestCancelOfACallIsRepeated(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		kv, err := b.Bucket(t.Context(), bus.TasksBucket)
		if err == nil {
			_, err = kv.PutString(t.Context(), "call.s.made", "cannot be read")
		}
		if err != nil {
			t.Fatal(err)
		}
		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(tools.Errorf(tools.CodeCancelled, "cancelled by a test"))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = busCaller{b}.Call(cancelled, tools.Call{ID: "made", Session: "s", Tool: "x"})
		}()
		time.Sleep(time.Minute)
		if _, err := kv.Put(t.Context(), "call.s.made", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		<-ended
		if r, err := task.ReadRecord(t.Context(), b, tools.CallKey{Session: "s", ID: "made"}); err != nil || r.Cancelled.IsZero() {
			t.Errorf("the record of the call is %+v, %v", r, err)
		}
	})
}

// A cancelled agent leaves a call that goes on in the background, also if its log does not say so yet.
func TestCancelledAgentLeavesTheBackground(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	spawned := tools.Call{ID: "spawned", Session: "s", Tool: "x"}
	body, err := bus.Encode(tools.NewResultEvent(spawned, tools.AsyncResult("started")))
	if err == nil {
		_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "spawned"), Body: body})
	}
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(tools.Errorf(tools.CodeCancelled, "cancelled by a test"))
	_, _ = busCaller{b}.Call(cancelled, spawned) // whatever it returns
	if r, err := task.ReadRecord(t.Context(), b, tools.CallKey{Session: "s", ID: "spawned"}); err != nil || !r.Cancelled.IsZero() {
		t.Errorf("the record of the call is %+v, %v", r, err)
	}
}

// A run that its worker handed back when it stopped, and that is cancelled before another worker continues it, is
// cancelled with its calls, also if their ids are so long that subjects have their hashes.
func TestCancelOfARunThatWasHandedBack(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("r", 62)
	b := bustest.New(t)
	started := make(chan struct{}, 1)
	block, err := tools.NewTool("block", "blocks until the worker stops", func(ctx context.Context, _ tools.Call, _ struct{}) *tools.Result {
		started <- struct{}{}
		<-tools.Stopping(ctx)
		return tools.Failure(tools.ErrInterrupted)
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := startModel(t, b, newUnreliable(t, overloaded, time.Time{}, `{"tools":[{"name":"block"}]}`), worker.Config{}, block.WithEffect(tools.Idempotent))
	if _, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt("s", id, "go")); err != nil {
		t.Fatal(err)
	}
	<-started
	stop()
	if got, err := task.Get(t.Context(), b, "s", id); err != nil || got.State != task.Waiting {
		t.Fatalf("the run is %+v, %v", got, err)
	}
	if _, err := task.Cancel(t.Context(), b, "s", id, "a test"); err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", tools.Token(tools.Token(id+"-t1-0"))); err != nil || got.State != task.Cancelled {
		t.Errorf("its call is %+v, %v", got, err)
	}
}

// A run whose call waits in a queue, or is parked, is not abandoned.
func TestQueuedRunIsAlive(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := busCaller{b}
	check := func(id string, want bool) {
		t.Helper()
		if alive, err := c.alive(t.Context(), tools.CallKey{Session: "s", ID: id}); alive != want || err != nil {
			t.Errorf("run %s is alive: %v, %v; want %v", id, alive, err, want)
		}
	}
	if _, err := rpc.Enqueue(t.Context(), b, bus.AgentQueue, prompt("s", "queued", "go")); err != nil {
		t.Fatal(err)
	}
	check("queued", true)
	check("missing", false)
	if _, err := task.Cancel(t.Context(), b, "s", "queued", "a test"); err != nil {
		t.Fatal(err)
	}
	check("queued", false)
}
