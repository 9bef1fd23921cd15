package task_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A list that the caller interrupts is an error, not a shorter list.
func TestInterruptedList(t *testing.T) {
	b := bustest.New(t)
	const calls = 300
	for i := range calls {
		call := tools.Call{ID: fmt.Sprint("c", i), Session: "s", Tool: "x"}
		if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: "default", State: task.Waiting, Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	interrupted, complete := 0, 0
	for pause := time.Duration(0); complete < 20 || interrupted == 0; pause = (pause + 20*time.Microsecond) % (20 * time.Millisecond) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(pause, cancel)
		list, err := task.ListParked(ctx, b, "s")
		cancel()
		switch {
		case err != nil:
			interrupted++
		case len(list) != calls:
			t.Fatalf("a list of %d calls of %d after %s", len(list), calls, pause)
		default:
			complete++
		}
	}
}
