package task_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// A call is found while it moves out of the calls stream to the parked calls.
func TestGetFindsACallThatMoves(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	api := jsapi.New(b.JetStream())
	for i := range 60 {
		call := tools.Call{ID: fmt.Sprint("c", i), Session: "s", Tool: "x"}
		body, err := bus.Encode(call)
		if err != nil {
			t.Fatal(err)
		}
		publish := func(subject string) uint64 {
			ack, err := b.Publish(t.Context(), bus.Message{Subject: subject, Body: body})
			if err != nil {
				t.Error(err)
			}
			return ack.Sequence
		}
		calls := publish(b.Call("default", "x", "s", call.ID))
		var moved atomic.Bool
		go func() {
			defer moved.Store(true)
			time.Sleep(time.Duration(i%6) * time.Millisecond)
			_, parkErr := task.Park(t.Context(), b, task.Parked{Call: call, Queue: "default", State: task.Waiting, Until: time.Now().Add(time.Hour)})
			if err := errors.Join(parkErr, api.DeleteMessage(t.Context(), b.StreamName(bus.Calls), calls)); err != nil {
				t.Error(err)
			}
		}()
		for last := false; !last; {
			last = moved.Load()
			if got, err := task.Get(t.Context(), b, "s", call.ID); err != nil || !got.EndedAt.IsZero() {
				t.Fatalf("call %s: %+v, %v", call.ID, got, err)
			}
		}
	}
}

// A list has a call that moves to and fro between the calls stream and the parked calls, or says that it may lack one.
func TestListHasACallThatMoves(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c", Session: "s", Tool: "x"}
	body, err := bus.Encode(call)
	if err != nil {
		t.Fatal(err)
	}
	ack, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", "x", "s", "c"), Body: body})
	if err != nil {
		t.Fatal(err)
	}
	var moved atomic.Bool
	var moving sync.WaitGroup
	defer moving.Wait()
	moving.Go(func() {
		defer moved.Store(true)
		sequence, p := ack.Sequence, task.Parked{Call: call, Queue: "default", State: task.Waiting, Order: ack.Sequence}
		for range 300 {
			var err error
			p.Number, err = task.Park(t.Context(), b, p)
			err = errors.Join(err, b.Delete(t.Context(), bus.Calls, sequence), task.Resume(t.Context(), b, p))
			m, last := b.Last(t.Context(), bus.Calls, b.Call("default", "x", "s", "c"))
			if err = errors.Join(err, last); err != nil {
				t.Error(err)
				return
			}
			sequence = m.Sequence
		}
	})
	for !moved.Load() {
		if list, err := task.List(t.Context(), b, "s"); err != nil || !list.Incomplete && (len(list.Tasks) != 1 || list.Tasks[0].Tool != "x") {
			t.Fatalf("the list %+v, %v", list, err)
		}
	}
}

// A call that returns an async result while it is cancelled gets the completion "cancelled":
// its result is not free any more, and its tool may never complete it.
func TestCancelWhileACallBecomesAsync(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c", Session: "s", Tool: "x"}
	body, err := bus.Encode(call)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	delivered, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- consume.Run(ctx, b, b.WorkerConsumer("default"), consume.Config{Grace: time.Millisecond}, func(ctx context.Context, _ *consume.Delivery) error {
			close(delivered)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", "x", "s", "c"), Body: body}); err != nil {
		t.Fatal(err)
	}
	<-delivered
	var asked atomic.Bool
	answer, err := task.AnswerRunning(b, bustest.Log(t), func(string, string) []task.RunningCall {
		if !asked.Swap(true) { // the caller has read that there is no result
			body, err := bus.Encode(tools.NewResultEvent(call, tools.AsyncResult("started")))
			if err == nil {
				_, err = b.Publish(t.Context(), bus.Message{Subject: b.Result("s", "c"), Body: body})
			}
			if err != nil {
				t.Error(err)
			}
		}
		return []task.RunningCall{{ID: "c", Tool: "x"}}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer answer()
	if got, err := task.Cancel(t.Context(), b, "s", "c", "a test"); err != nil || got.State != task.Cancelled || !asked.Load() {
		t.Errorf("%+v, %v; a worker was asked: %t", got, err, asked.Load())
	}
}

// A call that somebody made the consumer of its queue leave out is there: the server takes it for settled, but no worker ran it.
func TestGetFindsACallThatItsConsumerLeftOut(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := b.WorkerConsumer("default")
	consumer, err := b.Consumer(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	config := consumer.CachedInfo().Config
	config.FilterSubjects = []string{b.Call("default", "other", "*", "*")}
	if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(bus.Calls), config); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"x", "other"} {
		if _, err := b.Publish(t.Context(), bus.Message{Subject: b.Call("default", tool, "s", tool), Body: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if consumer, err = b.JetStream().Consumer(t.Context(), b.StreamName(bus.Calls), c.Name); err != nil {
		t.Fatal(err)
	}
	m, err := consumer.Next(jetstream.FetchMaxWait(bustest.Timeout))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", "x"); err != nil || got.State != task.Queued {
		t.Errorf("%+v, %v", got, err)
	}
	if lost, err := task.IsLost(t.Context(), b, tools.CallKey{Session: "s", ID: "x"}); err != nil || lost {
		t.Errorf("lost %v, %v", lost, err)
	}
}

// A process that stood still, or that resumes many calls, may resume a call late: for a wait that has ended since. The
// message of the call that runs meanwhile stays.
func TestLateResume(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	call := tools.Call{ID: "c", Session: "s", Tool: "x"}
	subject := b.Call("default", "x", "s", "c")
	last := func() bus.Stored {
		m, err := b.Last(t.Context(), bus.Calls, subject)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	waits := make([]task.Parked, 2)
	for i := range waits {
		waits[i] = task.Parked{Call: call, Queue: "default", State: task.Waiting, Order: 1}
		var err error
		if waits[i].Number, err = task.Park(t.Context(), b, waits[i]); err == nil {
			err = errors.Join(b.Delete(t.Context(), bus.Calls, last().Sequence), task.Resume(t.Context(), b, waits[i]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runs := last()
	if err := task.Resume(t.Context(), b, waits[0]); err != nil || runs.Sequence == 0 || last().Sequence != runs.Sequence {
		t.Errorf("the message %d was replaced by %d; %v", runs.Sequence, last().Sequence, err)
	}
}

// A call that was started ahead of its turn, and parked, is queued when it is published again: no worker has the new message.
func TestCallThatWasAheadIsQueuedAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := task.Parked{Call: tools.Call{ID: "c", Session: "s", Tool: "x"}, Queue: "idle", State: task.Waiting}
	accepted, err := rpc.Enqueue(t.Context(), b, "idle", p.Call)
	if err == nil {
		_, err = task.TakeAhead(t.Context(), b, p.Key(), accepted.Sequence)
	}
	if err != nil {
		t.Fatal(err)
	}
	bustest.Subscribe(t, b, b.RPC("running", ">")) // a worker that does not run it
	if got, err := task.Get(t.Context(), b, "s", "c"); err != nil || got.Message == "" {
		t.Errorf("ahead: %+v, %v", got, err)
	}
	if p.Number, err = task.Park(t.Context(), b, p); err == nil {
		err = errors.Join(b.Delete(t.Context(), bus.Calls, accepted.Sequence), task.Resume(t.Context(), b, p))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := task.Get(t.Context(), b, "s", "c"); err != nil || got.State != task.Queued || got.Message != "" {
		t.Errorf("published again: %+v, %v", got, err)
	}
}

// A call that was delivered again is found also if its worker puts it elsewhere just when another one asks who runs it.
func TestLocateACallThatMoves(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	publish := func(subject string, v any) error {
		body, err := bus.Encode(v)
		if err == nil {
			_, err = b.Publish(t.Context(), bus.Message{Subject: subject, Body: body})
		}
		return err
	}
	done := tools.NewToolResult("done")
	for id, move := range map[string]struct {
		to   func(tools.Call) error
		want task.Where
	}{
		"parked": {func(c tools.Call) error {
			_, err := task.Park(t.Context(), b, task.Parked{Call: c, Queue: "default", State: task.Waiting})
			return err
		}, task.IsParked},
		"held": {func(c tools.Call) error {
			return publish(b.Raw("default", "x", "s", c.ID), tools.RawEvent{Call: c, ForLLM: &done.ForLLM})
		}, task.HasEnded},
		"ended": {func(c tools.Call) error { return publish(b.Result("s", c.ID), tools.NewResultEvent(c, done)) }, task.HasEnded},
		"lost":  {func(tools.Call) error { return nil }, task.IsResumed}, // its worker has died
	} {
		d := &task.Delivered{
			Delivery: &consume.Delivery{Redelivered: true}, Call: tools.Call{ID: id, Session: "s", Tool: "x"},
			Key: tools.CallKey{Session: "s", ID: id}, Queue: "default",
		}
		l := task.Locator{Bus: b, Records: task.NewFollower(b, task.FollowerConfig{}), Results: task.NewResults(b, bustest.Log(t)), AskTimeout: time.Millisecond}
		l.Here = func(tools.CallKey) <-chan struct{} { // it has looked everywhere, and asks the workers now
			if err := move.to(d.Call); err != nil {
				t.Error(err)
			}
			return nil
		}
		if p, err := l.Locate(t.Context(), d, false); err != nil || p.Where != move.want {
			t.Errorf("%s: %+v, %v", id, p, err)
		}
	}
}
