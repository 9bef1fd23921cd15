package worker_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/bus/worker/workertest"
	"github.com/stevedore-bus/stevedore/tools"
)

// The acknowledgement of a claim is lost for so long that another worker ends the call, whose outcome is unknown then. The worker
// that has the claim does not begin the call after that.
func TestClaimThatIsAcknowledgedLate(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{Lease: time.Second, Log: bustest.Log(t)})
	proxy := bustest.NewProxy(t, s)
	var runs atomic.Int64
	once := echo(t, "once", tools.Once, &runs, nil)
	cutOff := sync.OnceFunc(proxy.DropReplies)
	stop := workertest.StartSteps(t, proxy.Connect(t), workertest.Plain{}, worker.Config{Name: "slow"}, func(s string) {
		if s == "claim" {
			cutOff()
		}
	}, once)
	submit(t, b, "stevedore.call.default.once", `{"id":"a","args":{"text":"x"}}`)
	bustest.WaitUntil(t, "the claim", func() bool {
		claim, _, err := task.ReadClaim(t.Context(), b, "default", "a")
		return err == nil && claim.Worker == "slow"
	})
	proxy.Hold() // so that the slow worker loses its lease
	start(t, b, worker.Config{Name: "other", AskTimeout: 300 * time.Millisecond, ClaimTimeout: time.Second}, once)
	var result tools.ResultEvent
	bustest.WaitUntil(t, "a result", func() (ok bool) {
		result, ok = event(t, b, b.Result("default", "a"))
		return ok
	})
	proxy.Heal()
	proxy.Cut()
	stop()
	if result.Outcome != tools.Unknown || runs.Load() != 0 {
		t.Errorf("result %+v after %d runs", result, runs.Load())
	}
}

// A worker gives up on a once-only call while the claim of another worker is on its way.
// The other worker then does not run the call, whose result says that it never ran.
func TestGivingUpTakesTheClaim(t *testing.T) {
	t.Parallel()
	s := bustest.Listen(t)
	b := bustest.Connect(t, s, bus.Config{Lease: time.Second, Log: bustest.Log(t)})
	proxy := bustest.NewProxy(t, s)
	msg := bus.Message{Subject: b.Call("default", "once", "default", "a"), Body: []byte(`{"id":"a","args":{"text":"x"}}`)}
	if _, err := b.Publish(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	bustest.Fail(t, b, "default", 2)
	var runs atomic.Int64
	once := echo(t, "once", tools.Once, &runs, nil)
	claiming := make(chan struct{})
	cutOff := sync.OnceFunc(func() { proxy.Hold(); close(claiming) })
	stop := workertest.StartSteps(t, proxy.Connect(t), workertest.Plain{}, worker.Config{Name: "slow", MaxAttempts: 100}, func(s string) {
		if s == "claim" {
			cutOff()
		}
	}, once)
	select {
	case <-claiming:
	case <-time.After(bustest.Timeout):
		t.Fatal("the worker does not claim the call")
	}
	recordStart(t, b, "a") // an attempt failed before the claim
	recordStart(t, b, "a")
	start(t, b, worker.Config{Name: "other", MaxAttempts: 3, AskTimeout: 300 * time.Millisecond}, once)
	var result tools.ResultEvent
	bustest.WaitUntil(t, "a result", func() (ok bool) {
		result, ok = event(t, b, b.Result("default", "a"))
		return ok
	})
	proxy.Heal()
	waitEmpty(t, b)
	stop()
	if result.Outcome != tools.Failed || result.Error.Code != tools.CodeGivenUp || runs.Load() != 0 {
		t.Errorf("result %+v after %d runs", result, runs.Load())
	}
	if claim, _, err := task.ReadClaim(t.Context(), b, "default", "a"); err != nil || claim.Worker != "other" || !claim.GivenUp {
		t.Errorf("claim %+v, %v", claim, err)
	}
}

// A worker that dies after it took the claim to give up on a call does not make the
// outcome unknown: no worker ran the call.
func TestGivenUpWithoutResult(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		submit(t, b, b.Claim("default", "a"), `{"worker":"dead","nonce":"n","given_up":true}`)
		var runs atomic.Int64
		msg := bus.Message{Subject: b.Call("default", "once", "default", "a"), Body: []byte(`{"id":"a","args":{"text":"x"}}`)}
		if _, err := b.Publish(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		bustest.Fail(t, b, "default", 1)
		start(t, b, worker.Config{}, echo(t, "once", tools.Once, &runs, nil))
		waitEmpty(t, b)
		if result, _ := event(t, b, b.Result("default", "a")); result.Error == nil || result.Error.Code != tools.CodeGivenUp || runs.Load() != 0 {
			t.Errorf("result %+v after %d runs", result, runs.Load())
		}
	})
}

// A worker gives up on a once-only call that was retried. The claim of one that gave up on the message before, and that
// arrived late, does not stand for its own: another worker removes that claim, and would run the call.
func TestGivenUpWithALateClaim(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		msg := bus.Message{Subject: b.Call("default", "once", "default", "a"), Body: []byte(`{"id":"a","args":{"text":"x"}}`)}
		before, err := b.Publish(t.Context(), msg)
		if err == nil {
			err = b.Delete(t.Context(), bus.Calls, before.Sequence)
		}
		if err == nil {
			err = task.StoreRetry(t.Context(), b, tools.CallKey{Session: "default", ID: "a"}, before.Sequence)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.Publish(t.Context(), msg)
		if err != nil {
			t.Fatal(err)
		}
		submit(t, b, b.Claim("default", "a"), fmt.Sprintf(`{"worker":"late","nonce":"n","given_up":true,"call_sequence":%d}`, before.Sequence))
		bustest.Fail(t, b, "default", 3)
		recordStart(t, b, "a")
		recordStart(t, b, "a")
		start(t, b, worker.Config{Name: "w", MaxAttempts: 1}, echo(t, "once", tools.Once, new(atomic.Int64), nil))
		waitEmpty(t, b)
		if claim, _, err := task.ReadClaim(t.Context(), b, "default", "a"); err != nil || claim.Worker != "w" || claim.CallSequence != again.Sequence {
			t.Errorf("claim %+v, %v", claim, err)
		}
	})
}

// A call is delivered again while its last attempt runs. The worker does not give up on the
// call: it waits for the result.
func TestLastAttemptStillRuns(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		leases := bustest.Subscribe(t, b, "$JS.ACK.>")
		var runs atomic.Int64
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		msg := bus.Message{Subject: b.Call("default", "keyed", "default", "a"), Body: []byte(`{"id":"a","args":{"text":"x"}}`)}
		if _, err := b.Publish(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		bustest.Fail(t, b, "default", 1)
		recordStart(t, b, "a") // by a worker that died
		start(t, b, worker.Config{MaxAttempts: 2}, echo(t, "keyed", tools.Keyed, &runs, func() { <-gate }))
		for requeued := false; !requeued; {
			lease, err := leases.NextMsg(bustest.Timeout)
			if err != nil {
				t.Fatal(err)
			}
			if string(lease.Data) == "+WPI" && runs.Load() == 1 {
				requeued = true
				if err := b.Conn().Publish(lease.Subject, []byte("-NAK")); err != nil { // as if the lease had ended
					t.Fatal(err)
				}
			}
		}
		bustest.WaitUntil(t, "the second delivery", func() bool {
			info, _, err := b.ConsumerInfo(t.Context(), b.WorkerConsumer("default"))
			return err == nil && info.NumRedelivered > 0 || bustest.Messages(t, b, bus.Dead) > 0
		})
		time.AfterFunc(time.Minute, open)
		waitEmpty(t, b)
		if result, _ := event(t, b, b.Result("default", "a")); result.Outcome != tools.Completed || runs.Load() != 1 {
			t.Errorf("result %+v after %d runs", result, runs.Load())
		}
		if n := bustest.Messages(t, b, bus.Dead); n != 0 {
			t.Errorf("%d dead letters", n)
		}
	})
}

// The last attempts of calls run one after the other, so that one that kills its worker uses up those of no others. If they
// are long, others begin after a while, in the slots that the worker has.
func TestLastAttemptsRunAlone(t *testing.T) {
	for _, test := range []struct {
		long time.Duration
		most int64
	}{{5 * time.Second, 1}, {5 * time.Minute, 2}} {
		bustest.Bubble(t, func(t *testing.T) {
			b := bustest.New(t)
			var runs, last, most atomic.Int64
			for _, id := range []string{"a", "b", "c"} {
				submit(t, b, "stevedore.call.default.slow", `{"id":"`+id+`","args":{"text":"x"}}`)
			}
			bustest.Fail(t, b, "default", 2)
			for _, id := range []string{"a", "b", "c"} {
				recordStart(t, b, id)
			}
			slow := echo(t, "slow", tools.Idempotent, &runs, func() {
				most.Store(max(most.Load(), last.Add(1)))
				time.Sleep(test.long)
				last.Add(-1)
			})
			start(t, b, worker.Config{MaxAttempts: 3, Slots: 2}, slow)
			bustest.WaitUntil(t, "a last attempt", func() bool { return last.Load() > 0 })
			time.Sleep(15 * time.Minute)
			waitEmpty(t, b)
			if n, letters := runs.Load(), bustest.Messages(t, b, bus.Dead); n != 3 || most.Load() != test.most || letters != 0 {
				t.Errorf("%d calls of %s ran, %d at once; %d dead letters", n, test.long, most.Load(), letters)
			}
		})
	}
}

// A last attempt that waits for the call of another last attempt delays it only for a while.
func TestLastAttemptThatWaitsForAnother(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		for _, call := range []string{"outer", "inner"} {
			submit(t, b, "stevedore.call.default."+call, `{"id":"`+call+`","args":{"text":"x"}}`)
		}
		bustest.Fail(t, b, "default", 2)
		recordStart(t, b, "outer")
		recordStart(t, b, "inner")
		started, waits := make(chan struct{}), make(chan struct{})
		outer := echo(t, "outer", tools.Idempotent, &runs, func() { close(started); <-waits })
		inner := echo(t, "inner", tools.Idempotent, &runs, func() { <-started; close(waits) })
		start(t, b, worker.Config{MaxAttempts: 3}, outer, inner)
		time.Sleep(2 * time.Minute)
		waitEmpty(t, b)
		if n := runs.Load(); n != 2 {
			t.Errorf("%d calls ran", n)
		}
	})
}

// If the worker that lost a call stores its result while another one cannot record that it begins the call, the tool does
// not run again.
func TestStartOfACallThatHasEnded(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		submit(t, b, "stevedore.call.default.keyed", `{"id":"a","args":{"text":"x"}}`)
		bustest.Fail(t, b, "default", 1)
		refuse := sync.OnceFunc(func() {
			stream, err := b.JetStream().Stream(t.Context(), b.BucketStream(bus.TasksBucket))
			if err == nil {
				config := stream.CachedInfo().Config
				config.Subjects = []string{"nothing"}
				_, err = b.JetStream().UpdateStream(t.Context(), config)
			}
			if err != nil {
				t.Error(err)
			}
		})
		workertest.StartSteps(t, b, workertest.Plain{}, worker.Config{}, func(step string) {
			if step == "claim" {
				refuse()
			}
		}, echo(t, "keyed", tools.Keyed, &runs, nil))
		time.Sleep(10 * time.Second)
		submit(t, b, b.Result("default", "a"), `{"id":"a","session":"default","tool":"keyed","outcome":"completed"}`)
		time.Sleep(2 * time.Minute)
		waitEmpty(t, b)
		if n := runs.Load(); n != 0 {
			t.Errorf("the call ran %d times", n)
		}
	})
}

// If the worker that lost a call stores its result while the last attempt waits for another one, the tool does not run.
func TestLastAttemptOfACallThatHasEnded(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		for _, call := range []string{"first", "second"} {
			submit(t, b, "stevedore.call.default."+call, `{"id":"`+call+`","args":{"text":"x"}}`)
		}
		bustest.Fail(t, b, "default", 2)
		recordStart(t, b, "first")
		recordStart(t, b, "second")
		echoOf := func(name string) tools.Tool {
			return echo(t, name, tools.Idempotent, &runs, func() { time.Sleep(30 * time.Second) })
		}
		start(t, b, worker.Config{MaxAttempts: 3}, echoOf("first"), echoOf("second"))
		time.Sleep(15 * time.Second)
		for _, call := range []string{"first", "second"} { // one runs, and the other one waits
			submit(t, b, b.Result("default", call), `{"id":"`+call+`","session":"default","tool":"`+call+`","outcome":"completed"}`)
		}
		time.Sleep(2 * time.Minute)
		waitEmpty(t, b)
		if n := runs.Load(); n != 1 {
			t.Errorf("%d calls ran", n)
		}
	})
}
