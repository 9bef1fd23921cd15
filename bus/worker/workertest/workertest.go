// Package workertest runs workers in tests.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package workertest

import (
	"context"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// Plain is a worker.Offloader without a store: it leaves results as they are.
type Plain struct{}

func (Plain) Result(_ context.Context, _ tools.Call, _ tools.Definition, res *tools.Result) (*tools.Result, error) {
	return res, nil
}

func (Plain) Raw(_ context.Context, raw tools.RawEvent) (*tools.Result, error) {
	return &tools.Result{ForLLM: *raw.ForLLM, UserContent: raw.UserContent, Silent: raw.Silent, IsError: raw.IsError}, nil
}

func (Plain) Fallback(_ tools.Call, _ *tools.Result, cause error) *tools.Result {
	return tools.Failure(tools.Errorf(tools.CodeOffloadFailed, "%v", cause))
}

// Start starts a worker. stop stops it and waits until it has ended; the end of the
// test calls stop too. Defaults: a Grace of 2 s, a ClaimTimeout of 1 ms.
func Start(t testing.TB, b *bus.Bus, offloader worker.Offloader, cfg worker.Config, toolset ...tools.Tool) (stop func()) {
	t.Helper()
	return StartSteps(t, b, offloader, cfg, nil, toolset...)
}

// StartSteps starts a worker that calls onStep before each step of its calls.
func StartSteps(t testing.TB, b *bus.Bus, offloader worker.Offloader, cfg worker.Config, onStep func(string), toolset ...tools.Tool) (stop func()) {
	t.Helper()
	registry := tools.NewRegistry(bustest.Log(t))
	if err := registry.Register(toolset...); err != nil {
		t.Fatal(err)
	}
	if cfg.Grace == 0 {
		cfg.Grace = 2 * time.Second
	}
	if cfg.ClaimTimeout == 0 {
		cfg.ClaimTimeout = time.Millisecond
	}
	cfg.Log = bustest.Log(t)
	w := worker.New(b, registry, offloader, cfg)
	return bustest.Run(t, func(ctx context.Context) error {
		if onStep != nil {
			ctx = tracing.OnStep(ctx, onStep)
		}
		return w.Run(ctx)
	})
}
