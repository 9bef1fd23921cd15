package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// When a watch ends, its subscriptions end too.
func TestFollowerLeavesNothing(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	until := func(n int) {
		t.Helper()
		bustest.WaitUntil(t, "the subscriptions to end", func() bool { return b.Conn().NumSubscriptions() <= n })
	}
	before := b.Conn().NumSubscriptions()
	nothing := func(tools.CallKey) {}
	for range 20 { // the watch may notice either end first
		ctx, cancel := context.WithCancel(t.Context())
		with := b.Conn().NumSubscriptions() + 1 // the subscription for Stop; the library ends its own
		ended := func() { cancel(); until(with) }
		err := task.NewFollower(b, task.FollowerConfig{Cancelled: nothing, Expired: nothing, Stop: nothing}).Run(ctx, ended)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	until(before)
}

// A forged key in the bucket of cancellations must not take workers down.
func TestForeignCancellationKeys(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	kv, err := b.JetStream().KeyValue(t.Context(), b.BucketName(bus.TasksBucket))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"call.x", "call.a.b.c", "call.a.b", "other"} {
		if _, err := kv.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := task.RecordCancellation(t.Context(), b, "s", "c"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	none := func(tools.CallKey) {}
	err = task.NewFollower(b, task.FollowerConfig{
		Cancelled: func(k tools.CallKey) { seen = append(seen, k.Session+"/"+k.ID) },
		Expired:   none, Stop: none,
	}).Run(ctx, cancel)
	if err != nil || strings.Join(seen, " ") != "s/c" {
		t.Errorf("saw %v, %v", seen, err)
	}
}

// The library ends a watch whose bucket is gone. Once there is a bucket again, the follower
// hears of later cancellations.
func TestFollowerOutlivesItsWatch(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		ready, cancelled := make(chan struct{}), make(chan tools.CallKey, 1)
		nothing := func(tools.CallKey) {}
		f := task.NewFollower(b, task.FollowerConfig{Cancelled: func(k tools.CallKey) { cancelled <- k }, Expired: nothing, Stop: nothing})
		defer bustest.Run(t, func(ctx context.Context) error { return f.Run(ctx, func() { close(ready) }) })()
		<-ready
		watching := b.Conn().NumSubscriptions()
		if err := b.JetStream().DeleteKeyValue(t.Context(), b.BucketName(bus.TasksBucket)); err != nil {
			t.Fatal(err)
		}
		bustest.WaitUntil(t, "the watch to end", func() bool { return b.Conn().NumSubscriptions() < watching })
		time.Sleep(time.Minute) // several tries fail
		if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b"} {
			if err := task.RecordCancellation(t.Context(), b, "s", id); err != nil {
				t.Fatal(err)
			}
			select {
			case k := <-cancelled:
				if k.ID != id {
					t.Errorf("call %s was cancelled, not %s", k.ID, id)
				}
			case <-time.After(bustest.Timeout):
				t.Fatalf("the follower does not hear of the cancellation of call %s", id)
			}
		}
	})
}

// If a cancellation fails after its result is stored, the next one completes it: the calls that the call made go on
// otherwise, and people are asked about them.
func TestCancelAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	kv, err := b.Bucket(t.Context(), bus.TasksBucket)
	if err != nil {
		t.Fatal(err)
	}
	park := func(id string, p task.Parked) tools.CallKey {
		p.Call, p.Queue, p.Until = tools.Call{ID: id, Session: "s", Tool: "x"}, "default", time.Now().Add(time.Hour)
		if _, err := task.Park(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
		return p.Key()
	}
	made := park("made", task.Parked{State: task.InputRequired})
	run := park("run", task.Parked{State: task.Waiting, WaitsFor: []tools.CallKey{made}, Made: true})
	record, err := kv.Get(t.Context(), "call.s.made")
	if err == nil {
		_, err = kv.PutString(t.Context(), "call.s.made", "damaged")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := task.CancelOpen(t.Context(), b, run, "a test"); err == nil {
		t.Fatal("a call that cannot be read was cancelled")
	}
	if _, err := kv.Put(t.Context(), "call.s.made", record.Value()); err != nil {
		t.Fatal(err)
	}
	if err := task.CancelOpen(t.Context(), b, run, "a test"); err != nil {
		t.Fatal(err)
	}
	for _, k := range []tools.CallKey{run, made} {
		got, err := task.Get(t.Context(), b, k.Session, k.ID)
		if _, parked, _ := task.ReadParked(t.Context(), b, k); err != nil || got.State != task.Cancelled || parked {
			t.Errorf("%s is %s, %v; parked: %t", k.ID, got.State, err, parked)
		}
	}
}

// A call that a run waited for, because a person had to approve it, and that goes on in the background since, is not
// cancelled with the run: no other background task is.
func TestCancelLeavesWhatWentToTheBackground(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	made := tools.CallKey{Session: "s", ID: "made"}
	p := task.Parked{Call: tools.Call{ID: "made", Session: "s", Tool: "x"}, Queue: "default", State: task.Waiting, Until: time.Now().Add(time.Hour)}
	if _, err := task.Park(t.Context(), b, p); err != nil {
		t.Fatal(err)
	}
	p.Call.ID, p.WaitsFor, p.Made = "run", []tools.CallKey{made}, true
	var err error
	if p.Number, err = task.Park(t.Context(), b, p); err == nil {
		err = task.Resume(t.Context(), b, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := bus.Encode(tools.NewResultEvent(tools.Call{ID: "made", Session: "s", Tool: "x"}, tools.AsyncResult("started")))
	if err == nil {
		_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "made"), Body: body})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.Cancel(t.Context(), b, "s", "run", "a test"); err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", "made"); err != nil || !got.EndedAt.IsZero() {
		t.Errorf("the background task is %s, %v", got.State, err)
	}
}

// After a loss of the connection, a follower begins another watch at once: the library may notice only later that its own was lost.
func TestFollowerWatchesAgain(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		ready, nothing := make(chan struct{}), func(tools.CallKey) {}
		f := task.NewFollower(b, task.FollowerConfig{Cancelled: nothing, Expired: nothing, Stop: nothing})
		defer bustest.Run(t, func(ctx context.Context) error { return f.Run(ctx, func() { close(ready) }) })()
		<-ready
		for range 3 {
			if err := b.Conn().ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			bustest.WaitUntil(t, "another connection", func() bool { return b.Conn().IsConnected() })
			time.Sleep(time.Second)
			if !f.IsCurrent() {
				t.Error("the follower has no new watch")
			}
		}
	})
}

// A process may die after it stored the result of a scheduled call that it cancelled, and before it stored the report that
// the notifier reads. The next cancellation removes the message of the call, so it stores the report.
func TestCancelAgainStoresTheReport(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c", Session: "s", Tool: "x", Action: bus.Cron}
	body, err := bus.Encode(tools.NewResultEvent(call, tools.Failure(tools.Errorf(tools.CodeCancelled, "cancelled"))))
	if err == nil {
		_, err = rpc.Enqueue(t.Context(), b, "default", call)
	}
	if err == nil {
		_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: body})
	}
	if err == nil {
		err = task.CancelOpen(t.Context(), b, tools.CallKey{Session: "s", ID: "c"}, "a test")
	}
	if err != nil {
		t.Fatal(err)
	}
	if report, err := b.Last(t.Context(), bus.Results, b.Report("s", "c")); err != nil || string(report.Body) != string(body) {
		t.Errorf("the report is %q, %v", report.Body, err)
	}
}
