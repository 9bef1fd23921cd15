package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/tools/retry"
)

const (
	// changeTimeout is how long the server may take to create or change a stream or
	// consumer. A cluster answers after the replicas have elected a leader. The first vote
	// takes less than a second. If it fails, as it does on busy machines, the next one
	// begins 4 to 9 s later.
	changeTimeout = 30 * time.Second
	// askTimeout is how long WithChangeTimeout waits before it asks again. The server drops an
	// answer if it does not know yet where the client is: the routes of a cluster that starts
	// do not all exist, while two of three servers elect a leader. It drops a question if the
	// stream has no leader.
	askTimeout = 10 * time.Second
)

// WithConnection returns a context that is cancelled when ctx is done, when the
// connection is closed, or when the connection has been down for Config.Away. In the last two
// cases its cause is an ErrUnreachable that names the server. Use it to wait for a
// message from the bus. stop releases it.
func (b *Bus) WithConnection(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	changes := b.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var timeout, notice <-chan time.Time
		if !b.nc.IsConnected() {
			timeout, notice = time.After(b.cfg.Away), time.After(Notice)
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.closed:
				cancel(b.ClosedErr())
			case status := <-changes:
				if status == nats.CONNECTED {
					timeout, notice = nil, nil
				} else if timeout == nil { // the status is repeated for each attempt
					timeout, notice = time.After(b.cfg.Away), time.After(Notice)
				}
			case <-notice:
				if notice = nil; b.cfg.Awaiting != nil {
					b.cfg.Awaiting(b.cfg.address())
				}
			case <-timeout:
				cancel(fmt.Errorf("%w: no connection to %s for %s", ErrUnreachable, b.cfg.address(), b.cfg.Away))
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		b.nc.RemoveStatusListener(changes)
	}
}

// WithChangeTimeout calls f, which looks up, creates or changes a stream or consumer, with a
// context that gives the server enough time. It calls f again if no answer comes, so the same
// change twice must do no harm.
func WithChangeTimeout(ctx context.Context, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		once, stop := context.WithTimeout(limited, askTimeout)
		err := f(once)
		stop()
		switch {
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return err
		case limited.Err() != nil:
			return fmt.Errorf("the server did not answer within %s; are most servers of the cluster up? %w", changeTimeout, err)
		}
	}
}

// UntilAnswered calls f, which starts something at the server. If the server cannot do that
// now, because its cluster has no leader or its disk is full, it calls f again until ctx ends.
func UntilAnswered(ctx context.Context, b *Bus, failure string, f func() error) error {
	final := func(err error) bool {
		return isRejected(err) || IsClosed(err) || errors.Is(err, jetstream.ErrBucketNotFound)
	}
	return retry.Do(ctx, retry.Pauses(100*time.Millisecond, 5*time.Second, 0), final, retry.Warn(b.log, failure), f)
}

// Unanswered returns the error of an operation, as an ErrUnreachable that names the server if JetStream did not answer.
func (b *Bus) Unanswered(err error) error {
	if errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
		return err
	}
	return fmt.Errorf("%w: JetStream at %s did not answer in time: %w", ErrUnreachable, b.cfg.address(), err)
}

// IsOutage reports whether err means that the bus did not answer, so that the same can succeed
// later.
func IsOutage(err error) bool {
	for _, outage := range []error{
		ErrUnreachable, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		nats.ErrDisconnected, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrStaleConnection,
	} {
		if errors.Is(err, outage) {
			return true
		}
	}
	return isOffline(err)
}

// isOffline reports whether a cluster knows that all servers which store a stream or consumer are down.
func isOffline(err error) bool {
	const streamOffline, consumerOffline = 10118, 10119 // server/errors.json of nats-server; nats.go has no names for them
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == streamOffline || api.ErrorCode == consumerOffline)
}

// IsClosed reports whether err means that the connection is closed, so that no repetition succeeds.
func IsClosed(err error) bool { return errors.Is(err, nats.ErrConnectionClosed) }

// ClosedErr returns the error of a closed connection: an ErrUnreachable that names the
// server and the reason.
func (b *Bus) ClosedErr() error {
	err := fmt.Errorf("%w: the connection to %s is closed", ErrUnreachable, b.cfg.address())
	if last := b.nc.LastError(); last != nil {
		err = fmt.Errorf("%w: %w", err, withoutURL(last))
	}
	return err
}

// address returns the configured address of the bus, without secrets.
func (c Config) address() string {
	if c.Context != "" {
		return fmt.Sprintf("context %q", c.Context)
	}
	return RedactURLs(c.Server)
}
