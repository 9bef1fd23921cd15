package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// checkInterval is the time before the first check of a queue, and between checks.
const checkInterval = 500 * time.Millisecond

// WarnIfNoWorker calls warn once if the wait for a result lasts and no worker is
// consuming the queue. The call then stays queued, which is not an error. stop ends
// the check and waits for it.
func WarnIfNoWorker(ctx context.Context, b *bus.Bus, queue string, warn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var checking sync.WaitGroup
	checking.Go(func() {
		if tools.Sleep(ctx, checkInterval) != nil {
			return
		}
		if consumed, err := rpc.HasWorker(ctx, b, queue, ""); err == nil && !consumed && ctx.Err() == nil {
			warn(ctx)
		}
	})
	return func() {
		cancel()
		checking.Wait()
	}
}

// IsQueued waits until a call has been published, and reports whether it is queued.
func IsQueued(ctx context.Context, b *bus.Bus, call tools.Call) bool {
	for {
		t, err := task.Get(ctx, b, call.SessionToken(), call.IDToken())
		if err == nil {
			return t.State == task.Queued
		}
		if tools.Sleep(ctx, checkInterval) != nil {
			return false
		}
	}
}

// MissingWorker returns a warning if no worker can run the calls of a tool on a
// queue now. It returns "" otherwise, or if it cannot find out.
func MissingWorker(ctx context.Context, b *bus.Bus, queue, tool string) string {
	var (
		offered, consumed bool
		errs              [2]error
		both              sync.WaitGroup // a negative answer takes a second
	)
	both.Go(func() { offered, errs[0] = rpc.HasWorker(ctx, b, queue, tool) })
	both.Go(func() { consumed, errs[1] = rpc.HasWorker(ctx, b, queue, "") })
	both.Wait()
	switch {
	case offered || errors.Join(errs[:]...) != nil:
		return ""
	case consumed:
		var known []string
		list, _ := rpc.ListTools(ctx, b, tools.OfferQuery{Queue: queue}) // only for the hint
		for _, t := range list.Tools {
			known = append(known, t.Name)
		}
		return fmt.Sprintf("no worker of queue %q offers the tool %q now%s; see stevedore tools ls", queue, tool, cli.DidYouMean(tool, known))
	}
	return fmt.Sprintf("no worker is consuming queue %q now; its calls stay queued until you start one: \"%s\"", queue, StartCommand(queue))
}
