package approvals_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A list has a question once, also if the record of its call changes while the records are read.
func TestListHasAQuestionOnce(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for n := range 300 { // more than the server sends at once
		call := tools.Call{ID: fmt.Sprint(n), Session: "s", Tool: "x"}
		p := task.Parked{Call: call, Queue: "default", State: task.InputRequired, Until: time.Now().Add(time.Hour)}
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n = (n + 1) % 300 {
			select {
			case <-stop:
				return
			default:
			}
			if err := task.CountStart(t.Context(), b, tools.CallKey{Session: "s", ID: fmt.Sprint(n)}, 1); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 50 {
		found, err := approvals.List(t.Context(), b, "s")
		if err != nil || len(found) != 300 {
			t.Errorf("%d questions, %v; want 300", len(found), err)
			break
		}
	}
	close(stop)
	<-stopped
}
