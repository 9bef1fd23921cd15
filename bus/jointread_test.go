package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Reads that wait at the same time get the messages of their own subjects, although one of them
// stops waiting, and one request is enough if there are none.
func TestLastTogether(t *testing.T) {
	t.Parallel()
	b := bustest.Connect(t, bustest.Server(t), bus.Config{Log: bustest.Log(t), Timeout: time.Hour}) // a busy machine holds the reads for long
	requests := bustest.Subscribe(t, b, jsapi.New(b.JetStream()).Subject("DIRECT.GET."+b.StreamName(bus.Results)))
	const reads = bus.MaxJoint + 9
	for _, m := range newResults(b, "stored", reads)[:2*reads/3] {
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for i, session := range []string{"none", "stored"} {
		most := 2 + i*reads // requests
		before, _, _ := requests.Pending()
		release := bus.HoldReads(b)
		joined := func(n int) {
			bustest.WaitUntil(t, "the reads", func() bool { return bus.JoinedReads(b, bus.Results) == n })
		}
		var wg sync.WaitGroup
		for i := range reads {
			if i == bus.MaxJoint {
				joined(i) // the first request is full
			}
			wg.Go(func() {
				subject, want := b.Result(session, fmt.Sprint("c", i)), ""
				if session == "stored" && i < 2*reads/3 {
					want = fmt.Sprint("stored", i)
				}
				m, err := b.Last(t.Context(), bus.Results, subject)
				if err != nil || string(m.Body) != want || want != "" && m.Subject != subject {
					t.Errorf("%s: %+v, %v", subject, m, err)
				}
			})
		}
		joined(reads - bus.MaxJoint)
		if m, err := b.Last(t.Context(), bus.Calls, b.Call("default", "t", "s", "c")); err != nil || m.Sequence != 0 {
			t.Errorf("a read of another stream: %+v, %v", m, err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() {
			_, err := b.Last(ctx, bus.Results, b.Result(session, "stops"))
			stopped <- err
		}()
		joined(reads + 1 - bus.MaxJoint)
		stop()
		if err := <-stopped; !errors.Is(err, context.Canceled) {
			t.Errorf("a read that stops waiting: %v", err)
		}
		release()
		wg.Wait()
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		if after, _, _ := requests.Pending(); after-before > most {
			t.Errorf("%s: %d requests, want at most %d", session, after-before, most)
		}
	}
}

// If the caller that would send the request stops waiting, the others read alone.
func TestLastTogetherWithoutSender(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	defer bus.HoldReads(b)()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	for i, ctx := range []context.Context{ctx, t.Context()} {
		go func() {
			_, err := b.Last(ctx, bus.Results, b.Result("s", "c"))
			ended <- err
		}()
		bustest.WaitUntil(t, "the read", func() bool { return bus.JoinedReads(b, bus.Results) == i+1 })
	}
	stop()
	first, second := <-ended, <-ended
	if !errors.Is(errors.Join(first, second), context.Canceled) || first != nil && second != nil {
		t.Errorf("errors %v and %v", first, second)
	}
}
