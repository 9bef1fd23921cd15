package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// A parked call that is delivered again, because its acknowledgement was lost or a client
// repeated it, does not run before its time.
func TestParkedCallIsDeliveredAgain(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		pausing, err := tools.NewTool("pausing", "pauses", func(context.Context, tools.Call, struct{}) *tools.Result {
			runs.Add(1)
			return tools.Failure(&tools.Pause{Until: time.Now().Add(time.Hour), Reason: "waiting for a test"})
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			msg := bus.Message{Subject: b.Call("default", "pausing", "s", "a"), Body: []byte(`{"args":{}}`), Header: map[string][]string{bus.PriorityHeader: {"high"}}}
			if _, err := b.Publish(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
			bustest.Fail(t, b, "default", 1)
			stop := start(t, b, worker.Config{}, pausing.WithEffect(tools.Idempotent))
			waitEmpty(t, b)
			stop()
		}
		p, ok, err := task.ReadParked(t.Context(), b, tools.CallKey{Session: "s", ID: "a"})
		if err != nil || !ok || runs.Load() != 1 {
			t.Errorf("parked: %t, %v; %d runs", ok, err, runs.Load())
		}
		published := bustest.Subscribe(t, b, b.Call("default", "pausing", "s", "a"))
		if err := task.Resume(t.Context(), b, p); err != nil {
			t.Fatal(err)
		}
		if msg, err := published.NextMsg(bustest.Timeout); err != nil || msg.Header.Get(bus.PriorityHeader) != "high" {
			t.Errorf("it was published again as %+v, %v", msg, err)
		}
	})
}

// A parked call whose record somebody has removed runs when it is submitted again.
func TestParkedCallWithoutItsRecord(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		pausing, err := tools.NewTool("pausing", "pauses once", func(context.Context, tools.Call, struct{}) *tools.Result {
			if runs.Add(1) > 1 {
				return tools.NewToolResult("done")
			}
			return tools.Failure(&tools.Pause{Until: time.Now().Add(24 * time.Hour), Reason: "waiting for a test"})
		})
		if err != nil {
			t.Fatal(err)
		}
		start(t, b, worker.Config{}, pausing.WithEffect(tools.Idempotent))
		results := bustest.Subscribe(t, b, b.Result("s", "a"))
		submit(t, b, b.Call("default", "pausing", "s", "a"), `{"args":{}}`)
		waitEmpty(t, b)
		kv, err := b.Bucket(t.Context(), bus.TasksBucket)
		if err != nil || kv.Purge(t.Context(), "call.s.a") != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the worker has heard of it
		submit(t, b, b.Call("default", "pausing", "s", "a"), `{"args":{}}`)
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Completed || runs.Load() != 2 {
			t.Errorf("result %+v, %d runs", got, runs.Load())
		}
	})
}

// Without the bucket of the records, which somebody has deleted, a worker runs calls all the same.
func TestCallWithoutTheBucketOfRecords(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		start(t, b, worker.Config{}, echo(t, "echo", tools.Idempotent, &runs, nil))
		time.Sleep(time.Second)
		if err := b.JetStream().DeleteKeyValue(t.Context(), b.BucketName(bus.TasksBucket)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		results := bustest.Subscribe(t, b, b.Result("s", "a"))
		submit(t, b, b.Call("default", "echo", "s", "a"), `{"args":{"text":"x"}}`)
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Outcome != tools.Completed {
			t.Errorf("%+v", got)
		}
	})
}

// A call that waits for another one, which it finds parked and its worker does not, or which is due, looks again once a
// second. Once it did so without a pause, until the other call ran.
func TestWaitForAParkedCallHasPauses(t *testing.T) {
	for _, until := range []time.Duration{time.Hour, 0, -time.Hour} {
		testWaitForAParkedCallHasPauses(t, until)
	}
}

func testWaitForAParkedCallHasPauses(t *testing.T, until time.Duration) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		began := time.Now()
		var runs atomic.Int64
		waiting, err := tools.NewTool("waiting", "waits for 10 s", func(context.Context, tools.Call, struct{}) *tools.Result {
			if n := runs.Add(1); n > 100 || time.Since(began) >= 10*time.Second {
				return tools.NewToolResult("done")
			}
			return tools.Failure(&tools.Pause{Until: time.Now().Add(until), WaitsFor: []tools.CallKey{{Session: "s", ID: "other"}}, Reason: "waiting for a test"})
		})
		if err != nil {
			t.Fatal(err)
		}
		submit(t, b, b.Call("default", "waiting", "s", "a"), `{"args":{}}`)
		start(t, b, worker.Config{}, waiting.WithEffect(tools.Idempotent))
		bustest.WaitUntil(t, "the result", func() bool {
			body, ok, err := bustest.Message(b.Last(t.Context(), bus.Results, b.Result("s", "a")))
			return err == nil && ok && len(body) > 0
		})
		if n, took := runs.Load(), time.Since(began); n > 12 || took < 10*time.Second || took > 13*time.Second {
			t.Errorf("until %v: %d runs in %v", until, n, took)
		}
	})
}
