package task_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A replica that stood still, or is cut off, answers with what it has. No list leaves out what it lacks.
func TestListsBesideAReplicaThatLags(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	const n = 7 // more than are read one by one
	for i := range n {
		call := tools.Call{ID: fmt.Sprint("waits-", i), Session: "s", Tool: "x"}
		if _, err := rpc.Enqueue(t.Context(), b, "idle", call); err != nil {
			t.Fatal(err)
		}
		call.ID = fmt.Sprint("parked-", i)
		p := task.Parked{Call: call, Queue: "idle", State: task.Waiting, Since: time.Now(), Until: time.Now().Add(time.Hour)}
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Lag(t, b.JetStream(), b.StreamName(bus.Calls), b.Call("idle", "x", "s", "waits-0"))
	bustest.Lag(t, b.JetStream(), b.BucketStream(bus.TasksBucket), b.EntrySubject("call.s.parked-0"))
	for range 20 {
		if list, err := task.ListPage(t.Context(), b, "s", task.Page{}); err != nil || len(list.Tasks) != 2*n {
			t.Fatalf("the page has %d tasks, %v", len(list.Tasks), err)
		}
		if parked, err := task.ListMoving(t.Context(), b, "s", time.Now().Add(time.Hour)); err != nil || len(parked) != n {
			t.Fatalf("parked are %d, %v", len(parked), err)
		}
		if calls, _, err := task.ListOpen(t.Context(), b, 0, 100, func(task.Task) bool { return true }); err != nil || len(calls) != 2*n {
			t.Fatalf("open are %d, %v", len(calls), err)
		}
	}
}
