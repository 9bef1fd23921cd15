package rpc

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// A client whose requests use all slots that it may use delays no other client, and each
// of its requests is answered or refused.
func TestFloodStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, end := newAdmission(16, t.Context().Done()), make(chan struct{})
		var flood, others, released atomic.Int32
		refused := 0
		const maxWaiting = maxWaitingBytes / minRequestBytes
		request := func(name string, started *atomic.Int32) error {
			return a.admit(name, 1, func() {
				started.Add(1)
				<-end
				a.release(name)
				released.Add(1)
			})
		}
		for range maxWaiting {
			if err := request("flood", &flood); errors.Is(err, errBusy) {
				refused++
			}
		}
		synctest.Wait()
		if n := flood.Load(); n != 12 || refused != maxWaiting/2-12 {
			t.Errorf("the flood has %d slots; %d requests refused", n, refused)
		}
		for i := range 4 {
			if err := request("other"+strconv.Itoa(i), &others); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := others.Load(); n != 4 {
			t.Errorf("%d of 4 other clients have a slot", n)
		}
		// With all slots in use, a new client comes next.
		if err := request("late", &others); err != nil {
			t.Error(err)
		}
		end <- struct{}{}
		synctest.Wait()
		if n := others.Load(); n != 5 {
			t.Errorf("%d of 5 other clients had a slot", n)
		}
		close(end)
		synctest.Wait()
		if n := int(released.Load()); n != maxWaiting-refused+5 || len(a.clients)+len(a.turn)+a.running+a.bytes != 0 {
			t.Errorf("%d requests ended; left: %+v", n, a)
		}
		if err := a.admit("large", maxWaitingBytes, func() { a.release("large") }); err != nil {
			t.Errorf("one large request: %v", err)
		}
	})
}

func TestClientOf(t *testing.T) {
	s, err := bus.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ subject, reply, want string }{
		{s.RPC("call", "q", "t", "s1", "c"), "_INBOX.a.b", "s1"},
		{s.RPC("artifact", "s1", "get"), "_INBOX.a.b", "s1"},
		{s.RPC("call", "q", "t"), "_INBOX.a.b", "_INBOX.a"},
		{s.RPC("submit", "q", "t"), "_R_.x.y", "rpc.submit.q"},
		{s.RPC("tools", "ls"), "_INBOX_me.a.b", "_INBOX_me.a"},
	} {
		if got := clientOf(s, c.subject, c.reply); got != c.want {
			t.Errorf("%s from %s: %q, want %q", c.subject, c.reply, got, c.want)
		}
	}
	if tools.CodeOf(errBusy) != CodeBusy {
		t.Error(errBusy)
	}
}

// Goroutines of requests are reused, but a burst leaves few of them, and the end of the service none.
func TestFewIdleGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, end := make(chan struct{}), make(chan struct{})
		a := newAdmission(4*maxIdle, stop)
		start := func() {
			if err := a.admit("client", 1, func() { <-end; a.release("client") }); err != nil {
				t.Error(err)
			}
		}
		idle := func(want int32) {
			t.Helper()
			synctest.Wait()
			if n := a.idling.Load(); n != want {
				t.Errorf("%d idle goroutines, want %d", n, want)
			}
		}
		for range 2 * maxIdle {
			start()
		}
		idle(0)
		close(end)
		idle(maxIdle)
		end = make(chan struct{})
		start()
		idle(maxIdle - 1)
		close(end)
		idle(maxIdle)
		close(stop)
		idle(0)
	})
}
