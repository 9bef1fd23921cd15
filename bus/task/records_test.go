package task_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A list that the caller interrupts is an error, not a shorter list.
func TestInterruptedList(t *testing.T) {
	if testing.Short() {
		t.Skip("works alone on much data, which is slow under the race detector")
	}
	t.Parallel()
	b := bustest.New(t)
	const calls = 150
	for i := range calls {
		call := tools.Call{ID: fmt.Sprint("c", i), Session: "s", Tool: "x"}
		if _, err := task.Park(t.Context(), b, task.Parked{Call: call, Queue: "default", State: task.Waiting, Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if list, err := task.ListMoving(t.Context(), b, "s", time.Now().Add(time.Hour)); err != nil || len(list) != calls {
		t.Fatalf("a list of %d calls of %d, %v", len(list), calls, err)
	}
	took := time.Since(began)
	const tries = 300
	for i := range tries {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(took*time.Duration(i)/tries, cancel)
		list, err := task.ListMoving(ctx, b, "s", time.Now().Add(time.Hour))
		cancel()
		if err == nil && len(list) != calls {
			t.Fatalf("a list of %d calls of %d", len(list), calls)
		}
	}
}

// A record stays as long as results do, and never less than a week.
func TestRecordsStayAsLongAsResults(t *testing.T) {
	t.Parallel()
	const week, month = 7 * 24 * time.Hour, 30 * 24 * time.Hour
	for id, test := range map[string]struct{ results, want time.Duration }{"hour": {time.Hour, week}, "month": {month, month}} {
		server := bustest.Server(t)
		bustest.Connect(t, server, bus.Config{ResultsTTL: test.results})
		b := bustest.Dial(t, server, bus.Config{}) // of a process without that setting
		if err := task.RecordCancellation(t.Context(), b, "s", id); err != nil {
			t.Fatal(err)
		}
		stream, err := b.JetStream().Stream(t.Context(), "KV_"+b.BucketName(bus.TasksBucket))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := stream.GetLastMsgForSubject(t.Context(), "$KV.stevedore_tasks.call.s."+id); err != nil || m.Header.Get("Nats-TTL") != test.want.String() {
			t.Errorf("%s: %+v, %v", id, m, err)
		}
	}
}
