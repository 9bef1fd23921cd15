package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/tools"
)

// checkInterval is the time before the first check of a queue, and between checks.
const checkInterval = 500 * time.Millisecond

// WarnIfNoWorker calls warn once if the wait for a result lasts and no worker is
// consuming the queue. The call then stays queued, which is not an error. silent is task.ErrSilent if workers
// do not answer: then nobody knows whether one has the call. stop ends the check and waits for it.
func WarnIfNoWorker(ctx context.Context, b *bus.Bus, queue string, warn func(ctx context.Context, silent error)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var checking sync.WaitGroup
	checking.Go(func() {
		if tools.Sleep(ctx, checkInterval) != nil {
			return
		}
		consumed, err := rpc.HasWorker(ctx, b, queue, "")
		if (err == nil && !consumed || errors.Is(err, task.ErrSilent)) && ctx.Err() == nil {
			warn(ctx, err)
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

// CheckTool returns an error if all runs of a call on a queue will fail, because of its arguments or
// the misspelt name of its tool, and a warning if no worker can run it now. It returns neither if
// it cannot find out. It converts the arguments of the call to the types that the tool wants: on a command
// line, the text true looks like a boolean.
func CheckTool(ctx context.Context, b *bus.Bus, c *cli.Connection, queue string, call *tools.Call) (warning string, err error) {
	var (
		offered  rpc.ToolList
		consumed bool
		errs     [2]error
		both     sync.WaitGroup // a negative answer takes a second
	)
	both.Go(func() { offered, errs[0] = rpc.ListTools(ctx, b, tools.OfferQuery{Queue: queue, Tool: call.Tool}) })
	both.Go(func() { consumed, errs[1] = rpc.HasWorker(ctx, b, queue, "") })
	both.Wait()
	switch err := errors.Join(errs[:]...); {
	case errors.Is(err, task.ErrSilent):
		return fmt.Sprintf("the tool and its arguments were not checked: %v", task.ErrSilent), nil
	case err != nil:
		return "", nil
	case len(offered.Tools) > 0:
		return "", checkArgs(c, offered.Tools, call)
	case !consumed:
		return fmt.Sprintf("no worker is consuming queue %q now; its calls stay queued until you start one: \"%s\"", queue, StartCommand(c, queue)), nil
	}
	known, _ := rpc.ListTools(ctx, b, tools.OfferQuery{Queue: queue}) // only for the hint
	none := fmt.Sprintf("no worker of queue %q offers the tool %q", queue, call.Tool)
	if hint := tools.DidYouMean(call.Tool, known.Names()); hint != "" {
		return "", tools.Errorf(tools.CodeInvalidArguments, "%s%s; see %s", none, hint, c.Command("tools", "ls"))
	}
	return none + " now; see " + c.Command("tools", "ls"), nil
}

// offeredTool is a tool of other processes: only its definition.
type offeredTool struct {
	tools.Tool
	definition tools.Definition
}

func (t offeredTool) Definition() tools.Definition { return t.definition }

// checkArgs returns an error if none of the definitions of a tool accepts the arguments of a call, after
// it has converted them to the types of the definition.
func checkArgs(c *cli.Connection, definitions []rpc.ToolInfo, call *tools.Call) (refused error) {
	for _, t := range definitions {
		if t.Parameters == nil {
			return nil // the offer had no room for it
		}
		coerced := *call
		coerced.Args, _ = tools.Coerce(t.Parameters, nil, call.Args)
		registry := tools.NewRegistry(zerolog.Nop())
		if err := registry.Register(offeredTool{definition: tools.Definition{Name: t.Name, Parameters: t.Parameters}}); err != nil {
			return nil
		}
		err := registry.Check(coerced)
		if err == nil {
			call.Args = coerced.Args
			return nil
		}
		refused = tools.Errorf(tools.CodeInvalidArguments, "each run would fail: %v; see %s", err, c.Command("tools", "show", t.Name))
	}
	return refused
}
