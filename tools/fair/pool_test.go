package fair

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A free slot goes to the consumer that holds the fewest, whoever came first.
func TestPoolGivesToTheSmallest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(2)
		flood, calm := p.Join(0), p.Join(0)
		for range 2 {
			if !flood.Take(t.Context(), 0) {
				t.Fatal("a free slot was not given")
			}
		}
		order := make(chan string, 3)
		take := func(name string, s *Share) {
			go func() {
				if s.Take(t.Context(), time.Minute) {
					order <- name
				}
			}()
			synctest.Wait()
		}
		take("flood", flood)
		take("flood", flood)
		take("calm", calm)
		flood.Release()
		if got := <-order; got != "calm" {
			t.Errorf("the slot went to %s", got)
		}
		calm.Release()
		flood.Release()
		if a, b := <-order, <-order; a != "flood" || b != "flood" {
			t.Errorf("the slots went to %s and %s", a, b)
		}
		flood.Release()
		flood.Release()
		if p.Free() != 2 || flood.held != 0 || calm.held != 0 {
			t.Errorf("%d slots are free, %d and %d held", p.Free(), flood.held, calm.held)
		}
	})
}

// Who gets no slot in time, or stops, leaves nothing behind.
func TestPoolTakeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(1)
		one, other := p.Join(0), p.Join(0)
		one.Take(t.Context(), 0)
		began := time.Now()
		if other.Take(t.Context(), time.Second) || time.Since(began) != time.Second {
			t.Errorf("a slot after %s", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if other.Take(ctx, time.Hour) {
			t.Error("a slot after the stop")
		}
		one.Release()
		if p.Free() != 1 || len(p.claims) != 0 {
			t.Errorf("%d slots are free, %d wait", p.Free(), len(p.claims))
		}
	})
}

// Consumers that were idle ask for one message, and busy ones divide the free slots.
func TestPoolAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(8)
		one, other := p.Join(0), p.Join(0)
		want := func(s *Share, most, want int) {
			t.Helper()
			if got := s.Ask(t.Context(), most); got != want {
				t.Errorf("it asks for %d messages, want %d", got, want)
			}
		}
		want(one, 64, 1)
		one.Received(1)
		want(one, 64, 8)
		want(one, 3, 3)
		want(other, 64, 1)
		other.Received(5)
		want(one, 64, 4)
		one.Received(0)
		want(one, 64, 1)
		for range 8 {
			one.Take(t.Context(), 0)
		}
		asked := make(chan int)
		go func() { asked <- other.Ask(t.Context(), 64) }()
		synctest.Wait()
		select {
		case n := <-asked:
			t.Errorf("it asks for %d messages while no slot is free", n)
		default:
		}
		one.Release()
		if n := <-asked; n != 1 {
			t.Errorf("it asks for %d messages of one free slot", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		other.Take(t.Context(), 0)
		time.AfterFunc(time.Second, cancel)
		other.Ask(ctx, 64) // returns
		if (*Pool)(nil).Join(0).Ask(ctx, 7) != 7 || !(*Share)(nil).Take(ctx, 0) {
			t.Error("without a pool there is a limit")
		}
	})
}

// Nobody gets more than its limit, although slots are free. What a part holds, the whole holds too.
func TestPoolLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(4)
		red, blue := p.Join(2), p.Join(2)
		a, b, c := red.Join(1), red.Join(1), blue.Join(1)
		if !a.TryTake() || a.TryTake() || !b.TryTake() || red.Join(1).TryTake() || !c.TryTake() {
			t.Errorf("%d slots are free; a and b of red hold %d and %d, c of blue %d", p.Free(), a.held, b.held, c.held)
		}
		got := make(chan string, 2)
		for name, s := range map[string]*Share{"a": a, "c": c} {
			go func() {
				if s.Take(t.Context(), time.Minute) {
					got <- name
				}
			}()
		}
		synctest.Wait()
		b.Release() // which is of no use for a, and none for c
		synctest.Wait()
		if len(got) > 0 || p.Free() != 2 {
			t.Errorf("%s got a slot beyond its limit; %d are free", <-got, p.Free())
		}
		c.Release()
		if name := <-got; name != "c" {
			t.Errorf("a slot of c went to %s", name)
		}
		a.Release()
		<-got
		a.Release()
		c.Release()
		if p.Free() != 4 || red.held != 0 || blue.held != 0 {
			t.Errorf("%d slots are free, %d and %d held", p.Free(), red.held, blue.held)
		}
	})
}

// Who waits longest for a slot gets it before one who had a slot since.
func TestPoolTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(1)
		flood, calm := p.Join(0), p.Join(0)
		flood.TryTake()
		got := make(chan string, 4)
		for _, name := range []string{"flood", "flood", "flood", "calm"} {
			s := map[string]*Share{"flood": flood, "calm": calm}[name]
			go func() {
				if s.Take(t.Context(), time.Minute) {
					got <- name
					s.Release()
				}
			}()
			synctest.Wait()
		}
		flood.Release()
		if name := <-got; name != "calm" {
			t.Errorf("the slot went to %s, which had one", name)
		}
		synctest.Wait()
	})
}
