package task_test

import (
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// The first answer to an approval counts, whoever gives the second one.
func TestFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	k := tools.CallKey{Session: "s", ID: "c"}
	if stored, err := task.WriteAnswer(t.Context(), b, k, task.Answer{At: time.Now(), By: "first"}); err != nil || stored.By != "first" {
		t.Fatalf("stored %+v, %v", stored, err)
	}
	stored, err := task.WriteAnswer(t.Context(), b, k, task.Answer{Approve: true, At: time.Now(), By: "second"})
	if err != nil || stored.Approve || stored.By != "first" {
		t.Errorf("the second answer: stored %+v, %v", stored, err)
	}
}

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
