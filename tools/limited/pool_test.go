package limited_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/integration/slow"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/limited"
)

// flood starts n works of a session that do not end before stop is called, each of them in a
// process. started gets an element whenever one starts.
func flood(t *testing.T, p *limited.Pool, session string, n int) (started chan int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	started = make(chan int, 100)
	for range n {
		all.Go(func() {
			_ = p.Do(ctx, session, time.Hour, func(ctx context.Context) error {
				started <- 1
				_, err := limited.Ask[*result](ctx, answerCommand, request{Do: "spin"}, strings.NewReader(""))
				return err
			})
		})
	}
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	return started
}

// small does one small work in a process, and fails the test if it does not get its turn.
func small(t *testing.T, p *limited.Pool, session string) {
	t.Helper()
	err := p.Do(t.Context(), session, time.Hour, func(ctx context.Context) error {
		_, err := limited.Ask[*result](ctx, answerCommand, request{Do: "read"}, strings.NewReader("x"))
		return err
	})
	if err != nil {
		t.Errorf("a small work of the session %s: %v", session, err)
	}
}

// Small works end while another session, or this one, or a whole tenant, has works without end.
func TestSmallWorkAmongEndlessOnes(t *testing.T) {
	slow.Test(t)
	const rounds = 3
	p := limited.NewPool()
	for i := range 8 { // more than there are slow slots
		flood(t, p, fmt.Sprint("flood", i), 3)
	}
	for range rounds {
		small(t, p, "calm")
	}
	small(t, p, "flood0")
	red, blue := p.Tenant(), p.Tenant()
	for i := range 8 {
		flood(t, red, fmt.Sprint("flood", i), 3)
	}
	for range rounds {
		small(t, blue, "calm")
	}
}

// A second slow work of a session waits for the first one, and one of another session does not.
func TestSlowWorkTakesTurns(t *testing.T) {
	t.Parallel()
	p := limited.NewPool()
	slow := func(session string, until <-chan struct{}) (slow, ended chan struct{}, runs *int) {
		slow, ended, runs = make(chan struct{}), make(chan struct{}), new(int)
		go func() {
			defer close(ended)
			err := p.Do(t.Context(), session, time.Hour, func(ctx context.Context) error {
				*runs++
				if !spin(ctx, 400*time.Millisecond) {
					return ctx.Err()
				}
				close(slow)
				select {
				case <-until:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			if err != nil {
				t.Errorf("a slow work of %s: %v", session, err)
			}
		}()
		return slow, ended, runs
	}
	end, ended := make(chan struct{}), make(chan struct{})
	close(ended)
	first, firstEnded, _ := slow("a", end)
	<-first
	_, secondEnded, runs := slow("a", ended)
	other, otherEnded, _ := slow("b", ended)
	<-other // while the first of a runs
	<-otherEnded
	select {
	case <-secondEnded:
		t.Error("a session has two slow works at once")
	default:
	}
	close(end)
	<-firstEnded
	<-secondEnded
	if *runs != 2 {
		t.Errorf("the second slow work began %d times, want once for its first slice and once for the rest", *runs)
	}
}

// spin uses processor time. It returns false if ctx ends before.
func spin(ctx context.Context, d time.Duration) bool {
	for used := time.Duration(0); used < d; {
		began := time.Now()
		for time.Since(began) < time.Millisecond {
			if ctx.Err() != nil {
				return false
			}
		}
		used += time.Millisecond
	}
	return true
}

// At its limit of processor time, work ends with a cause that names it: in this process, in another
// one, and in one that does not look at its context.
func TestProcessorTime(t *testing.T) { // not parallel: work of this process counts that of other tests
	p := limited.NewPool()
	for name, work := range map[string]func(context.Context) error{
		"here": func(ctx context.Context) error {
			for ctx.Err() == nil {
			}
			return context.Cause(ctx)
		},
		"here after another one": func(ctx context.Context) error {
			if _, err := limited.Ask[*result](ctx, answerCommand, request{Do: "read"}, strings.NewReader("x")); err != nil {
				return err
			}
			for ctx.Err() == nil {
			}
			return context.Cause(ctx)
		},
		"within": func(ctx context.Context) error {
			_, err := limited.Ask[*result](ctx, answerCommand, request{"spin", 300 * time.Millisecond}, strings.NewReader(""))
			return err
		},
		"deaf": func(ctx context.Context) error {
			_, err := limited.Ask[*result](ctx, answerCommand, request{"spin deaf", 300 * time.Millisecond}, strings.NewReader(""))
			return err
		},
	} {
		err := doUnlessBusy(t, p, name, 300*time.Millisecond, work)
		if err == nil || !strings.Contains(err.Error(), "reached its limit of 300ms of processor time") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What waits uses none, here for another process that uses more than its limit. The start of that
	// process counts, and the race detector makes it expensive.
	err := doUnlessBusy(t, p, "waits", 800*time.Millisecond, func(ctx context.Context) error {
		_ = p.Do(t.Context(), "meanwhile", time.Second, func(ctx context.Context) error {
			_, err := limited.Ask[*result](ctx, answerCommand, request{"spin", time.Second}, strings.NewReader(""))
			return err
		})
		return context.Cause(ctx)
	})
	if err != nil {
		t.Errorf("a work that waits longer than its limit of processor time: %v", err)
	}
}

// doUnlessBusy does a work again if it ended because other programs use the processors.
func doUnlessBusy(t *testing.T, p *limited.Pool, name string, cpu time.Duration, work func(context.Context) error) (err error) {
	for {
		err = p.Do(t.Context(), name, cpu, work)
		if reached, ok := errors.AsType[limited.Reached](err); !ok || reached.Wall == 0 {
			return err
		}
	}
}

// Work that panics leaves its slot.
func TestPanickingWork(t *testing.T) {
	t.Parallel()
	p := limited.NewPool()
	for range 100 {
		func() {
			defer func() { _ = recover() }()
			_ = p.Do(t.Context(), "s", time.Hour, func(context.Context) error { panic("!") })
		}()
	}
	small(t, p, "s")
}

// Work whose caller gave up does not run.
func TestPoolEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	p := limited.NewPool()
	started := flood(t, p, "s", 2)
	<-started
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 4 {
		if err := p.Do(ctx, "s", time.Hour, func(ctx context.Context) error { return ctx.Err() }); !errors.Is(err, context.Canceled) || tools.CodeOf(err) == tools.CodeTimeout {
			t.Errorf("after the end of the caller: %v", err)
		}
	}
}

// Larger inputs get more time, up to the limit of their kind.
func TestCPUOfInputs(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]time.Duration{
		0: 4 * time.Second, 1 << 20: 4 * time.Second, 1<<20 + 1: 5 * time.Second, 4 << 20: 7 * time.Second, 1 << 40: 10 * time.Second,
	} {
		if got := limited.JQ.CPU(size); got != want {
			t.Errorf("%d bytes may take %s, want %s", size, got, want)
		}
	}
}

var answerCommand = []string{os.Args[0], "answer"}

// Work may use what others began, such as an iterator that reads ahead: the runtime ends a program
// that locks its goroutine to a thread there.
func TestWorkUsesIterators(t *testing.T) {
	t.Parallel()
	next, stop := iter.Pull(slices.Values([]int{1, 2, 3}))
	defer stop()
	next()
	for want := 2; want <= 3; want++ {
		err := limited.NewPool().Do(t.Context(), "s", time.Hour, func(context.Context) error {
			if got, ok := next(); !ok || got != want {
				return fmt.Errorf("got %d, want %d", got, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
