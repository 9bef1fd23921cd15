package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// countingTool counts its runs.
func countingTool(t *testing.T, name string, runs *atomic.Int32) tools.Tool {
	t.Helper()
	tool, err := tools.NewTool(name, "counts", func(ctx context.Context, _ tools.Call, _ struct {
		N    int    `json:"n,omitempty"`
		Text string `json:"text,omitempty"`
	}) *tools.Result {
		runs.Add(1)
		if tools.Approved(ctx) != (name == "danger") {
			return tools.ErrorResult("the tool does not know whether a person approved its call")
		}
		return tools.NewToolResult("ran")
	})
	if err != nil {
		t.Fatal(err)
	}
	return tool // once-only
}

// submitCall submits a call and returns a channel for its result.
func submitCall(t *testing.T, b *bus.Bus, call tools.Call) <-chan tools.ResultEvent {
	t.Helper()
	result := make(chan tools.ResultEvent, 1)
	go func() {
		event, err := rpc.Submit(t.Context(), b, bus.DefaultQueue, call)
		if err != nil && t.Context().Err() == nil {
			t.Errorf("call %s: %v", call.ID, err)
		}
		result <- event
	}()
	return result
}

func waitForApprovals(t *testing.T, b *bus.Bus, want int) []approvals.Approval {
	t.Helper()
	var list []approvals.Approval
	bustest.WaitUntil(t, fmt.Sprintf("%d approvals", want), func() (ok bool) {
		var err error
		if list, err = approvals.List(t.Context(), b, "*"); err != nil {
			t.Fatal(err)
		}
		return len(list) == want
	})
	return list
}

// Calls that need an approval hold no slot and no place in the stream, also when the worker
// restarts. A yes runs the call once, a no becomes an error result, and the first answer
// counts.
func TestApprovals(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs, asked atomic.Int32
		danger, safe := countingTool(t, "danger", &runs), countingTool(t, "safe", new(atomic.Int32))
		cfg := worker.Config{Slots: 1, Approvals: approvals.Rules{
			Needed: func(call tools.Call) bool { return call.Tool == "danger" },
			Ask: func(_ context.Context, a approvals.Approval) error {
				asked.Add(1)
				return nil
			},
		}}
		stop := workertest.Start(t, b, workertest.Plain{}, cfg, danger, safe)
		results := map[string]<-chan tools.ResultEvent{}
		for _, id := range []string{"yes", "no", "twice"} {
			results[id] = submitCall(t, b, tools.Call{ID: id, Session: "s", Tool: "danger", Args: json.RawMessage(`{"n":1}`)})
		}
		list := waitForApprovals(t, b, 3)
		if a := list[0]; a.Session != "s" || a.Tool != "danger" || string(a.Args) != `{"n":1}` || a.Deadline.Sub(a.AskedAt) < 23*time.Hour {
			t.Errorf("approval %+v", a)
		}
		if event := <-submitCall(t, b, tools.Call{ID: "safe", Session: "s", Tool: "safe"}); event.ForLLM != "ran" {
			t.Errorf("while calls wait, another one got %+v", event)
		}
		if event := <-submitCall(t, b, tools.Call{ID: "bad", Session: "s", Tool: "danger", Args: json.RawMessage(`{"n":"x"}`)}); event.Error == nil || event.Error.Code != tools.CodeInvalidArguments {
			t.Errorf("a call with invalid arguments got %+v", event)
		}
		bustest.WaitUntil(t, "the stream to be empty", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
		if got, err := task.Get(t.Context(), b, "s", "yes"); err != nil || got.State != task.InputRequired {
			t.Errorf("task %q, %v", got.Text(), err)
		}
		stop()

		answer := func(id string, a task.Answer) error {
			_, err := approvals.Answer(t.Context(), b, tools.CallKey{Session: "s", ID: id}, a)
			return err
		}
		if err := answer("yes", task.Answer{Approve: true}); err != nil { // while no worker runs
			t.Fatal(err)
		}
		// The answers count for a worker without rules too.
		workertest.Start(t, b, workertest.Plain{}, worker.Config{Slots: 1}, danger, safe)
		if event := <-results["yes"]; event.Outcome != tools.Completed || event.ForLLM != "ran" {
			t.Errorf("the approved call: %+v", event)
		}
		if err := answer("no", task.Answer{Reason: "use the trash"}); err != nil {
			t.Fatal(err)
		}
		if event := <-results["no"]; event.Error == nil || event.Error.Code != tools.CodeDenied || !strings.Contains(event.ForLLM, "use the trash") {
			t.Errorf("the denied call: %+v", event)
		}
		if err := answer("twice", task.Answer{}); err != nil {
			t.Fatal(err)
		}
		if err := answer("twice", task.Answer{Approve: true}); tools.CodeOf(err) != tools.CodeInvalidArguments || !strings.Contains(err.Error(), "no") {
			t.Errorf("a second answer: %v", err)
		}
		if event := <-results["twice"]; event.Error == nil || event.Error.Code != tools.CodeDenied {
			t.Errorf("a call with two answers: %+v", event)
		}
		if err := answer("safe", task.Answer{Approve: true}); tools.CodeOf(err) != tools.CodeNotFound {
			t.Errorf("an answer for a call that needs none: %v", err)
		}
		if runs.Load() != 1 || asked.Load() != 3 {
			t.Errorf("the tool ran %d times, and the user was asked %d times", runs.Load(), asked.Load())
		}
		waitForApprovals(t, b, 0)
	})
}

// The approval of a call does not count for another call with its id.
func TestApprovalIsForOneCall(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int32
	cfg := worker.Config{Approvals: approvals.Rules{Needed: func(tools.Call) bool { return true }}}
	workertest.Start(t, b, workertest.Plain{}, cfg, countingTool(t, "danger", &runs))
	k := tools.CallKey{Session: "s", ID: "x"}
	other := task.Answer{Approve: true, Digest: tools.Call{Tool: "danger", Args: json.RawMessage(`{"n":1}`)}.Digest()}
	if _, err := task.ChangeRecord(t.Context(), b, k, func(r *task.Record) error { r.Answer = &other; return nil }); err != nil {
		t.Fatal(err)
	}
	_, err := rpc.Submit(t.Context(), b, bus.DefaultQueue, tools.Call{ID: "x", Session: "s", Tool: "danger", Args: json.RawMessage(`{"n":2}`)})
	if tools.CodeOf(err) != tools.CodeMismatch || runs.Load() != 0 {
		t.Errorf("%v, %d runs", err, runs.Load())
	}
}

// If nobody answers before the deadline, the answer is no. A cancelled call does not wait.
func TestApprovalExpires(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int32
		cfg := worker.Config{Approvals: approvals.Rules{Needed: func(tools.Call) bool { return true }, Timeout: time.Hour}}
		workertest.Start(t, b, workertest.Plain{}, cfg, countingTool(t, "danger", &runs))
		start := time.Now()
		cancelled := submitCall(t, b, tools.Call{ID: "c", Session: "s", Tool: "danger"})
		expired := submitCall(t, b, tools.Call{ID: "x", Session: "s", Tool: "danger"})
		soon := submitCall(t, b, tools.Call{ID: "d", Session: "s", Tool: "danger", Deadline: start.Add(10 * time.Minute)})
		time.Sleep(time.Minute)
		if _, err := task.Cancel(t.Context(), b, "s", "c", "a test"); err != nil {
			t.Error(err)
		}
		if event := <-cancelled; event.Outcome != tools.Cancelled || time.Since(start) > 2*time.Minute {
			t.Errorf("the cancelled call: %+v", event)
		}
		if event := <-soon; !event.IsError || time.Since(start) > 11*time.Minute {
			t.Errorf("the call with a deadline: %+v", event)
		}
		event := <-expired
		if took := time.Since(start); event.Error == nil || event.Error.Code != tools.CodeDenied || !strings.Contains(event.ForLLM, "nobody answered") || took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("after %s: %+v", took, event)
		}
		_, err := approvals.Answer(t.Context(), b, tools.CallKey{Session: "s", ID: "x"}, task.Answer{Approve: true})
		if err == nil || !strings.Contains(err.Error(), "time for the answer has passed") {
			t.Errorf("a late answer: %v", err)
		}
		if runs.Load() != 0 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// A question that cannot be sent does not end its call: the call waits, is listed, and can be
// answered.
func TestRefusedQuestionKeepsTheCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs, asked atomic.Int32
		cfg := worker.Config{MaxAttempts: 2, Approvals: approvals.Rules{
			Needed: func(tools.Call) bool { return true },
			Ask: func(context.Context, approvals.Approval) error {
				switch asked.Add(1) % 3 {
				case 0:
					return consume.Reject("refused_chat", errors.New("no such chat"))
				case 1:
					return tools.Errorf(tools.CodeInvalidArguments, "the channel does not send there")
				}
				return fmt.Errorf("send message: %w", consume.Reject("too_large", bus.ErrTooLarge))
			},
		}}
		workertest.Start(t, b, workertest.Plain{}, cfg, countingTool(t, "danger", &runs))
		var results []<-chan tools.ResultEvent
		for i := range 3 {
			results = append(results, submitCall(t, b, tools.Call{ID: fmt.Sprint("x", i), Session: "s", Tool: "danger"}))
		}
		waitForApprovals(t, b, 3)
		bustest.WaitUntil(t, "the stream to be empty", func() bool { return bustest.Messages(t, b, bus.Calls) == 0 })
		for i, result := range results {
			if _, err := approvals.Answer(t.Context(), b, tools.CallKey{Session: "s", ID: fmt.Sprint("x", i)}, task.Answer{Approve: true}); err != nil {
				t.Error(err)
			}
			if event := <-result; event.ForLLM != "ran" {
				t.Errorf("%+v", event)
			}
		}
		if runs.Load() != 3 || asked.Load() != 3 {
			t.Errorf("%d runs, asked %d times", runs.Load(), asked.Load())
		}
	})
}

// The arguments of such a call that a full store keeps only in part are not those of the call: it fails at once.
func TestApprovalOfALargeCallBesideAFullStore(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		size := int(b.Conn().MaxPayload()) - 200
		store := mem.New(offload.StoreConfig{Quota: int64(size) * 3 / 4})
		cfg := worker.Config{Slots: 1, MaxAttempts: 1, Reader: offload.NewReader(store, offload.ReaderConfig{}), Approvals: approvals.Rules{
			Needed: func(tools.Call) bool { return true },
			Ask: func(context.Context, approvals.Approval) error {
				t.Error("somebody was asked about it")
				return nil
			},
		}}
		workertest.Start(t, b, offload.NewOffloader(store, offload.Config{}), cfg, countingTool(t, "danger", new(atomic.Int32)))
		args, err := json.Marshal(map[string]string{"text": strings.Repeat("x", size)})
		if err != nil {
			t.Fatal(err)
		}
		event := <-submitCall(t, b, tools.Call{ID: "a", Session: "s", Tool: "danger", Args: args})
		if event.Error == nil || !strings.Contains(event.Error.Message, "it is too large to wait for one") {
			t.Errorf("%.300v", event)
		}
	})
}

// A call whose arguments are too large for a record waits for its approval too, also when the
// worker restarts: they wait in an artifact. The question has the start of its arguments. To wait is not an attempt.
func TestApprovalOfALargeCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs, asked atomic.Int32
		tool, err := tools.NewTool("danger", "counts", func(_ context.Context, _ tools.Call, in struct {
			Text string `json:"text"`
		}) *tools.Result {
			runs.Add(1)
			return tools.NewToolResult(fmt.Sprint(len(in.Text)))
		})
		if err != nil {
			t.Fatal(err)
		}
		cfg := worker.Config{Slots: 1, MaxAttempts: 1, Approvals: approvals.Rules{
			Needed: func(call tools.Call) bool { return call.Tool == "danger" },
			Ask: func(_ context.Context, a approvals.Approval) error {
				if asked.Add(1); len(a.Args) > 3000 || !strings.Contains(string(a.Args), "only the start") {
					t.Errorf("the question has %d bytes: %.200s", len(a.Args), a.Args)
				}
				return nil
			},
		}}
		safe := countingTool(t, "safe", new(atomic.Int32))
		size := int(b.Conn().MaxPayload()) - 200
		args, err := json.Marshal(map[string]string{"text": strings.Repeat("x", size)})
		if err != nil {
			t.Fatal(err)
		}
		store := mem.New(offload.StoreConfig{})
		offloader := offload.NewOffloader(store, offload.Config{})
		cfg.Reader = offload.NewReader(store, offload.ReaderConfig{})
		stop := workertest.Start(t, b, offloader, cfg, tool, safe)
		results := map[string]<-chan tools.ResultEvent{}
		for _, id := range []string{"yes", "no", "cancelled"} {
			results[id] = submitCall(t, b, tools.Call{ID: id, Session: "s", Tool: "danger", Args: args})
		}
		waitForApprovals(t, b, 3)
		if event := <-submitCall(t, b, tools.Call{ID: "safe", Session: "s", Tool: "safe"}); event.ForLLM != "ran" {
			t.Errorf("while calls wait, another one got %+v", event)
		}
		stop()
		k := func(id string) tools.CallKey { return tools.CallKey{Session: "s", ID: id} }
		if _, err := approvals.Answer(t.Context(), b, k("yes"), task.Answer{Approve: true}); err != nil {
			t.Fatal(err)
		}
		workertest.Start(t, b, offloader, worker.Config{Slots: 1, MaxAttempts: 1, Reader: cfg.Reader}, tool, safe)
		if event := <-results["yes"]; event.ForLLM != fmt.Sprint(size) {
			t.Errorf("the approved call: %+v", event)
		}
		if _, err := approvals.Answer(t.Context(), b, k("no"), task.Answer{}); err != nil {
			t.Fatal(err)
		}
		if event := <-results["no"]; event.Error == nil || event.Error.Code != tools.CodeDenied {
			t.Errorf("the denied call: %+v", event)
		}
		if _, err := task.Cancel(t.Context(), b, "s", "cancelled", "a test"); err != nil {
			t.Fatal(err)
		}
		if event := <-results["cancelled"]; event.Outcome != tools.Cancelled {
			t.Errorf("the cancelled call: %+v", event)
		}
		bustest.WaitUntil(t, "no call and no record to remain", func() bool {
			parked, err := task.ListMoving(t.Context(), b, "*", time.Now().Add(time.Hour))
			return err == nil && len(parked) == 0 && bustest.Messages(t, b, bus.Calls) == 0
		})
		if runs.Load() != 1 || asked.Load() < 3 {
			t.Errorf("%d runs, asked %d times", runs.Load(), asked.Load())
		}
	})
}

// The clock of the worker that parked a call may differ from that of the worker that resumes
// it: the time for the answer is counted from when the server stored the question.
func TestApprovalExpiresByTheClockOfTheServer(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -48 * time.Hour, "ahead": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.New(t)
				var runs atomic.Int32
				start := time.Now()
				asked := start.Add(off)
				call := tools.Call{ID: "x", Session: "s", Tool: "danger"}
				if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: bus.DefaultQueue, State: task.InputRequired, Since: asked, Until: asked.Add(time.Hour)}); err != nil {
					t.Fatal(err)
				}
				result := bustest.Subscribe(t, b, b.Result("s", "x"))
				workertest.Start(t, b, workertest.Plain{}, worker.Config{}, countingTool(t, "danger", &runs))
				msg, err := result.NextMsgWithContext(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took < time.Hour || took > time.Hour+time.Minute || !strings.Contains(string(msg.Data), tools.CodeDenied) {
					t.Errorf("after %s: %s", took, msg.Data)
				}
			})
		})
	}
}
