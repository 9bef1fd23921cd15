package task_test

import (
	"context"
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A report replaces another message in its place only if it is of the stored result: a process
// that was stopped before it stored the report of a result may go on when the call was retried.
func TestReportIsOfTheStoredResult(t *testing.T) {
	b := bustest.New(t)
	publish := func(ctx context.Context, m bus.Message) error {
		_, err := b.Publish(ctx, m)
		return err
	}
	event := tools.NewResultEvent(tools.Call{ID: "c", Session: "s"}, tools.UserResult("text"))
	if err := publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: []byte("second")}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ body, want string }{{"first", "first"}, {"second", "second"}, {"first", "second"}} {
		report := task.Report{Key: tools.CallKey{Session: "s", ID: "c"}, Event: event, Body: []byte(step.body)}
		if err := report.Store(t.Context(), b, publish); err != nil {
			t.Fatal(err)
		}
		stored, err := b.Last(t.Context(), bus.Results, b.Report("s", "c"))
		if err != nil || string(stored.Body) != step.want {
			t.Errorf("after the report of the %s result: %q, %v; want that of the %s", step.body, stored.Body, err, step.want)
		}
	}
}
