package task_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// Only the worker that runs a call answers, and a reader of the session's calls gets
// those of all workers.
func TestFindAndListRunning(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for _, name := range []string{"w1", "w2"} {
		call := task.RunningCall{ID: "c-" + name, Worker: name}
		stop, err := task.AnswerRunning(b, bustest.Log(t), func(session, id string) []task.RunningCall {
			if session != "s" || id != "" && id != call.ID {
				return nil
			}
			return []task.RunningCall{call}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	if r, ok, err := task.FindRunning(t.Context(), b, "s", "c-w2", time.Minute); err != nil || !ok || r.Worker != "w2" {
		t.Errorf("found %+v, %t, %v", r, ok, err)
	}
	if r, ok, err := task.FindRunning(t.Context(), b, "s", "other", time.Millisecond); err != nil || ok {
		t.Errorf("found %+v, %t, %v", r, ok, err)
	}
	list, err := task.ListRunning(t.Context(), b, "s", func(found map[string]task.RunningCall) bool { return len(found) == 2 })
	if err != nil || len(list) != 2 || list["c-w1"].Worker != "w1" {
		t.Errorf("listed %+v, %v", list, err)
	}
	// The answer never becomes a stored message.
	if err := b.Conn().PublishRequest(b.RPC("running", "s"), b.Result("victim", "1"), nil); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := task.FindRunning(t.Context(), b, "s", "c-w1", time.Minute); err != nil || !ok { // both answered before
		t.Error(ok, err)
	}
	if n := bustest.Messages(t, b, bus.Results); n != 0 {
		t.Errorf("%d answers are stored as results", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := task.FindRunning(ctx, b, "s", "other", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A worker that answers late is still heard, if one of its calls is in the list. Once the list
// of a session whose only open call is async showed that call as queued.
func TestListWaitsForALateWorker(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	body, err := bus.Encode(tools.ResultEvent{ID: "c", Session: "s", Tool: "x", Outcome: tools.Async, StartedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, bus.Message{Subject: b.Result("s", "c"), Body: body})
	stop, err := task.AnswerRunning(b, bustest.Log(t), func(string, string) []task.RunningCall {
		time.Sleep(300 * time.Millisecond) // a busy machine
		return []task.RunningCall{{ID: "c", Worker: "w"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if list, err := task.List(t.Context(), b, "s"); err != nil || len(list.Tasks) != 1 || list.Tasks[0].State != task.Running {
		t.Errorf("listed %+v, %v", list, err)
	}
	// Nor does the answer of somebody else end the wait for all.
	_, err = b.Conn().Subscribe(b.RPC("running", ">"), func(msg *nats.Msg) { _ = msg.Respond([]byte("garbage")) })
	if err != nil {
		t.Fatal(err)
	}
	if all, err := task.AllRunning(t.Context(), b); err != nil || len(all) != 1 || all[0].Worker != "w" {
		t.Errorf("all: %+v, %v", all, err)
	}
}
