package task_test

import (
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
	results := task.NewResults(b, bustest.Log(t))
	event := tools.NewResultEvent(tools.Call{ID: "c", Session: "s"}, tools.UserResult("text"))
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: []byte("second")}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ body, want string }{{"first", "first"}, {"second", "second"}, {"first", "second"}} {
		stored := task.StoredResult{ResultEvent: event, Body: []byte(step.body)}
		if err := results.Report(t.Context(), tools.CallKey{Session: "s", ID: "c"}, stored); err != nil {
			t.Fatal(err)
		}
		report, err := b.Last(t.Context(), bus.Results, b.Report("s", "c"))
		if err != nil || string(report.Body) != step.want {
			t.Errorf("after the report of the %s result: %q, %v; want that of the %s", step.body, report.Body, err, step.want)
		}
	}
}
