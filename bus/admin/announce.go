package admin

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
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

func othersSubject(b *bus.Bus) string {
	return "$KV." + b.BucketName(bus.TasksBucket) + ".workers.others"
}

// Announce stores that a worker outside of the server's process uses the server.
func Announce(ctx context.Context, b *bus.Bus, log zerolog.Logger) error {
	return retry.Log(ctx, log, "cannot announce this worker", announceTimeout, bus.IsClosed, func() error {
		_, err := b.JetStream().PublishMsg(ctx, &nats.Msg{
			Subject: b.API().PutSubject(othersSubject(b)), Data: []byte("{}"),
			Header: nats.Header{jetstream.MsgTTLHeader: {announced.String()}},
		})
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
	m, err := b.API().GetFromLeader(ctx, "KV_"+b.BucketName(bus.TasksBucket), jsapi.Get{LastBySubject: othersSubject(b)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return len(m.Data) > 0, err // without data, it expired
}
