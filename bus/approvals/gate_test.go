package approvals_test

import (
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// The first answer to an approval counts, whoever gives the second one: a person, or the worker when
// the time has passed.
func TestFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	gate := approvals.Gate{Bus: b, Log: bustest.Log(t)}
	for name, first := range map[string]bool{"person": true, "worker": false} {
		call := tools.Call{ID: name, Session: "s", Tool: "danger"}
		d := &task.Delivered{
			Call: call, Key: tools.CallKey{Session: "s", ID: name}, Digest: call.Digest(), Resumed: task.Parked{State: task.InputRequired},
		}
		parked := task.Parked{Call: call, Queue: "default", State: task.InputRequired, Since: time.Now(), Until: time.Now().Add(time.Hour)}
		if _, err := task.Park(t.Context(), b, parked); err != nil {
			t.Fatal(err)
		}
		answer := func(yes bool) error {
			_, err := approvals.Answer(t.Context(), b, d.Key, task.Answer{Approve: yes, By: "a person"})
			return err
		}
		if first {
			if err := answer(true); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			decision, err := gate.Decide(t.Context(), d)
			if err != nil || decision.Approved != first || (decision.Denied == nil) != first || decision.Question != nil {
				t.Errorf("%s: %+v, %v", name, decision, err)
			}
			if err := answer(!first); tools.CodeOf(err) != tools.CodeInvalidArguments {
				t.Errorf("%s: the second answer: %v", name, err)
			}
		}
	}
}

// Nobody is asked about a call that was cancelled, also if the process that cancelled it died before it ended the wait: a yes does
// not let it run.
func TestQuestionOfACancelledCall(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c", Session: "s", Tool: "danger"}
	parked := task.Parked{Call: call, Queue: "default", State: task.InputRequired, Since: time.Now(), Until: time.Now().Add(time.Hour)}
	if _, err := task.Park(t.Context(), b, parked); err != nil {
		t.Fatal(err)
	}
	if err := task.RecordCancellation(t.Context(), b, "s", "c"); err != nil {
		t.Fatal(err)
	}
	key := tools.CallKey{Session: "s", ID: "c"}
	if all, err := approvals.List(t.Context(), b, "*"); err != nil || len(all) > 0 {
		t.Errorf("the open questions are %+v, %v", all, err)
	}
	if its, err := approvals.For(t.Context(), b, key); err != nil || len(its) > 0 {
		t.Errorf("the questions of the call are %+v, %v", its, err)
	}
	if _, err := approvals.Answer(t.Context(), b, key, task.Answer{Approve: true, By: "a person"}); tools.CodeOf(err) != tools.CodeNotFound {
		t.Errorf("an answer: %v", err)
	}
	if got, err := task.Get(t.Context(), b, "s", "c"); err != nil || got.State != task.Waiting || got.Message != "waiting for a worker, since it was cancelled" {
		t.Errorf("the task is %s: %s, %v", got.State, got.Message, err)
	}
}
