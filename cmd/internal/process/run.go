package process

import (
	"context"
	"errors"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus/worker"
)

// OnReady is called when a process accepts calls, and returns what is called when it stops.
type OnReady func() (onStop func() error, err error)

// announce waits until the service answers, calls onReady, and calls onStop, also after an
// error of onReady, when the process stops. It closes announced between the two.
func announce(ctx context.Context, serving <-chan struct{}, announced chan<- struct{}, h *health, onReady OnReady) error {
	select {
	case <-serving:
	case <-ctx.Done():
		return nil
	}
	onStop, err := onReady()
	if err != nil {
		if onStop != nil {
			err = errors.Join(err, onStop())
		}
		return err
	}
	close(announced)
	h.serving.Store(true)
	<-ctx.Done()
	h.serving.Store(false)
	return onStop()
}

// logStop logs how many calls the process waits for after it was stopped.
func (p *process) logStop(w *worker.Worker) {
	calls := 0
	for _, q := range w.Stats().Queues {
		calls += q.Running
	}
	level := zerolog.InfoLevel
	if calls > 0 {
		level = zerolog.WarnLevel
	}
	p.log.WithLevel(level).Int("calls", calls).Stringer("grace", p.Worker.Grace).
		Msg("stopping: running calls get the grace time to finish; a second interrupt or SIGTERM ends the process at once")
}

// untilClosed ends the process when the connection is closed for good: such a
// worker can do nothing, and must not look alive.
func (p *process) untilClosed(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-p.bus.Closed():
		return p.bus.ClosedErr()
	}
}

// Together runs all functions until ctx is cancelled or one of them fails, and
// returns when all of them have returned.
func Together(ctx context.Context, functions ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range functions {
		group.Go(func() error { return f(ctx) })
	}
	return group.Wait()
}
