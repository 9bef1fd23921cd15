package task_test

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// Changes of one record at the same time are all kept.
func TestChangesAtTheSameTime(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	k := tools.CallKey{Session: "s", ID: "c"}
	const workers = 8
	done := make(chan error, workers)
	for range workers {
		go func() { done <- task.CountStart(t.Context(), b, k, 1) }()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if r, err := task.ReadRecord(t.Context(), b, k); err != nil || r.Starts != workers {
		t.Errorf("%+v, %v", r, err)
	}
}
