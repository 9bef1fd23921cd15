package task

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

const (
	othersKey = "workers.others"
	// announced is how long an announcement counts.
	announced = 24 * time.Hour
)

// Announce stores that a worker outside of the server's process uses the server.
func Announce(ctx context.Context, b *bus.Bus) error {
	m := &nats.Msg{Subject: "$KV." + b.BucketName(bus.TasksBucket) + "." + othersKey, Data: []byte("{}"), Header: nats.Header{jetstream.MsgTTLHeader: {announced.String()}}}
	_, err := b.JetStream().PublishMsg(ctx, m)
	return err
}

// OthersAnnounced reports whether such a worker has announced itself during the last day. It
// may have ended since.
func OthersAnnounced(ctx context.Context, b *bus.Bus) (bool, error) {
	bucket := b.BucketName(bus.TasksBucket)
	m, err := jsapi.New(b.JetStream()).GetFromLeader(ctx, "KV_"+bucket, jsapi.Get{LastBySubject: "$KV." + bucket + "." + othersKey})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return len(m.Data) > 0, err // without data, it expired
}
