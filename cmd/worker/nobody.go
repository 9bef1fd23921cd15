package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
)

// nobodyAfter is how long an answer may take until it is asked whether anybody
// is there to give one.
const nobodyAfter = 500 * time.Millisecond

// watchQueue calls nobody, unless the wait for an answer is over before, when no
// worker serves the queue that something was submitted to. That is no failure:
// it waits there. stop ends the watch, and returns when it has ended.
func watchQueue(ctx context.Context, b *bus.Bus, queue string, nobody func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-time.After(nobodyAfter):
		case <-ctx.Done():
			return
		}
		// If it cannot be told, nothing is said.
		if served, err := rpc.HasWorker(ctx, b, queue, ""); err == nil && !served && ctx.Err() == nil {
			nobody()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// whoServes says what to start for a queue.
func whoServes(queue string) string {
	if queue == bus.DefaultQueue {
		return `"worker serve"`
	}
	return fmt.Sprintf(`"worker serve --queue %s"`, queue)
}

// lacking says what is missing for the calls of a tool on a queue, or nothing.
func lacking(ctx context.Context, b *bus.Bus, queue, tool string) string {
	var (
		offered, served bool
		errs            [2]error
		both            sync.WaitGroup // each takes a while if the answer is no
	)
	both.Go(func() { offered, errs[0] = rpc.HasWorker(ctx, b, queue, tool) })
	both.Go(func() { served, errs[1] = rpc.HasWorker(ctx, b, queue, "") })
	both.Wait()
	switch {
	case offered || errors.Join(errs[:]...) != nil:
		return ""
	case served:
		return fmt.Sprintf("no worker of the queue %q has the tool %q now; see worker tools ls", queue, tool)
	}
	return fmt.Sprintf("no worker serves the queue %q now; its calls wait until one does: start it with %s", queue, whoServes(queue))
}
