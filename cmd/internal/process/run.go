package process

import (
	"context"
	"errors"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// run runs the parts together.
func (p *parts) run(ctx context.Context, onReady func() (func() error, error)) error {
	running := []func(context.Context) error{p.worker.Run, p.service.Run, p.sweep, p.keeper.Run, p.untilClosed}
	running = append(running, p.running...)
	if !p.NoNotify {
		if err := p.notifier.Register(ctx); err != nil {
			return err
		}
		running = append(running, p.notify)
	}
	stopped := ctx
	running = append(running,
		func(ctx context.Context) error { return p.announce(ctx, onReady) },
		func(ctx context.Context) error {
			<-ctx.Done()
			if stopped.Err() != nil { // otherwise a part failed, and Run returns its error
				p.logStop()
			}
			return nil
		})
	return Together(ctx, running...)
}

// notify runs the notifier. The console gets no notification before onReady has printed
// what programs expect in the first line.
func (p *parts) notify(ctx context.Context) error {
	select {
	case <-p.announced:
		return p.notifier.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// announce waits until the service answers, calls onReady, and calls onStop, also after an
// error of onReady, when the process stops.
func (p *parts) announce(ctx context.Context, onReady func() (onStop func() error, err error)) error {
	select {
	case <-p.serving:
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
	close(p.announced)
	p.health.serving.Store(true)
	<-ctx.Done()
	p.health.serving.Store(false)
	return onStop()
}

// logStop logs how many calls the process waits for after it was stopped.
func (p *parts) logStop() {
	calls := 0
	for _, q := range p.worker.Stats().Queues {
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
func (p *parts) untilClosed(ctx context.Context) error {
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
