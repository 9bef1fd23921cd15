package task_test

import (
	"testing"

	"github.com/stevedore-bus/stevedore/bus"
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

// The acknowledgement of a change is lost. It counts once, and so does the attempt of a call.
func TestAcknowledgementOfAChangeIsLost(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	b, proxy := bustest.Connect(t, s, bus.Config{}), bustest.NewProxy(t, s)
	far, key := proxy.Connect(t), tools.CallKey{Session: "s", ID: "c"}
	tries := 0
	changed := make(chan error, 1)
	go func() {
		_, err := task.ChangeRecord(t.Context(), far, key, func(r *task.Record) error {
			if tries++; tries == 1 {
				proxy.DropReplies()
			}
			r.Starts++
			return nil
		})
		changed <- err
	}()
	starts := func() int {
		r, err := task.ReadRecord(t.Context(), b, key)
		if err != nil {
			t.Fatal(err)
		}
		return r.Starts
	}
	bustest.WaitUntil(t, "the change", func() bool { return starts() > 0 && proxy.Affected() })
	proxy.Heal()
	if err := <-changed; err != nil || starts() != 1 {
		t.Errorf("%d starts, %v", starts(), err)
	}
}
