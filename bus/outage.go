package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
