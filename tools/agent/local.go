package agent

import (
	"context"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// Local is a Caller that runs tools in this process and offloads what is big,
// for programs that use the loop as a library. A call that is made again while
// the Local lives has the result that it had. Async tools are waited for.
type Local struct {
	registry  *tools.Registry
	offloader *offload.Offloader

	mu    sync.Mutex
	calls map[[2]string]*localCall
}

type localCall struct {
	done  chan struct{}
	event tools.ResultEvent
	err   error
}

// NewLocal returns a Caller for the tools of a registry.
func NewLocal(registry *tools.Registry, offloader *offload.Offloader) *Local {
	return &Local{registry: registry, offloader: offloader, calls: map[[2]string]*localCall{}}
}

// Call runs a call, or waits for the run of it.
func (l *Local) Call(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	if err := call.Validate(); err != nil {
		return tools.ResultEvent{}, err
	}
	key := [2]string{call.SessionToken(), call.IDToken()}
	l.mu.Lock()
	c, known := l.calls[key]
	if !known {
		c = &localCall{done: make(chan struct{})}
		l.calls[key] = c
	}
	l.mu.Unlock()
	if known {
		select {
		case <-c.done:
			return c.event, c.err
		case <-ctx.Done():
			return tools.ResultEvent{}, context.Cause(ctx)
		}
	}
	c.event, c.err = l.run(ctx, call)
	if c.err != nil { // nothing came of it, so it may be made again
		l.mu.Lock()
		delete(l.calls, key)
		l.mu.Unlock()
	}
	close(c.done)
	return c.event, c.err
}

func (l *Local) run(ctx context.Context, call tools.Call) (tools.ResultEvent, error) {
	started := time.Now()
	if !call.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, call.Deadline)
		defer cancel()
	}
	def, _ := l.registry.Definition(call.Tool)
	res := l.registry.Run(ctx, call, nil)
	defer res.Close()
	if ctx.Err() != nil && res.IsError && def.Effect != tools.Once {
		return tools.ResultEvent{}, context.Cause(ctx) // it may run again
	}
	light, err := l.offloader.Result(ctx, call, def, res)
	if err != nil {
		light = l.offloader.Fallback(call, res, err)
	}
	event := tools.NewResultEvent(call, light)
	event.Attempt, event.Digest = 1, call.Digest()
	event.StartedAt, event.DurationMS = started.UTC(), time.Since(started).Milliseconds()
	return event, nil
}
