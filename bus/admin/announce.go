package admin

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// A worker outside of the server's process announces itself to the next process of the server, which
// then does not take over its deliveries.

const (
	// announceTimeout is how long a worker that starts tries to announce itself.
	announceTimeout = 30 * time.Second
	// announceInterval is the pause between two announcements. Each one counts for a day.
	announceInterval = time.Hour
	announced        = 24 * time.Hour
)

const othersKey = "workers.others"

// Announce stores that a worker outside of the server's process uses the server.
func Announce(ctx context.Context, b *bus.Bus, log zerolog.Logger) error {
	return retry.Log(ctx, log, "cannot announce this worker", announceTimeout, bus.IsClosed, func() error {
		m, err := b.Entry(ctx, othersKey)
		if err == nil {
			_, err = b.PutEntry(ctx, othersKey, []byte("{}"), m.Sequence, announced)
		}
		if errors.Is(err, bus.ErrConflict) { // another worker has just announced itself
			return nil
		}
		return err
	})
}

// KeepAnnounced repeats the announcement until ctx ends.
func KeepAnnounced(ctx context.Context, b *bus.Bus, log zerolog.Logger) {
	for tools.Sleep(ctx, announceInterval) == nil {
		_ = Announce(ctx, b, log) // it has logged the error
	}
}

// OthersAnnounced reports whether such a worker has announced itself during the last day. It
// may have ended since.
func OthersAnnounced(ctx context.Context, b *bus.Bus) (bool, error) {
	m, err := b.Entry(ctx, othersKey)
	return len(m.Data) > 0, err // without data, it expired
}
