package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// awayPatience is how long the bus may be away before that is told: a restart
// takes less, and most failovers do.
const awayPatience = 30 * time.Second

// WithConnection returns a context for those who wait for something that comes over
// the bus: it ends with ctx, and when the bus is gone, which is when the
// connection was given up, or was lost and did not come back for half a minute.
// Then its cause is an ErrUnreachable that names the server. stop releases it.
func (b *Bus) WithConnection(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	changes := b.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var away <-chan time.Time
		if !b.nc.IsConnected() {
			away = time.After(awayPatience)
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-b.closed:
				cancel(b.ClosedErr())
			case status := <-changes:
				if status == nats.CONNECTED {
					away = nil
				} else if away == nil { // it is told again with each attempt
					away = time.After(awayPatience)
				}
			case <-away:
				cancel(fmt.Errorf("%w: %s has been away for %s", ErrUnreachable, b.address(), awayPatience))
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		b.nc.RemoveStatusListener(changes)
	}
}

// ClosedErr is what a closed connection means to who needs it: an ErrUnreachable
// that names the server, and why it was given up.
func (b *Bus) ClosedErr() error {
	err := fmt.Errorf("%w: the connection to %s was given up", ErrUnreachable, b.address())
	if last := b.nc.LastError(); last != nil {
		err = fmt.Errorf("%w: %w", err, withoutURL(last))
	}
	return err
}

// address is where the bus is, as the configuration says it, without secrets.
func (b *Bus) address() string {
	if b.cfg.Context != "" {
		return fmt.Sprintf("context %q", b.cfg.Context)
	}
	return redactURLs(b.cfg.Server)
}
