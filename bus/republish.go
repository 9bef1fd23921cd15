package bus

import (
	"context"
	"maps"

	"github.com/nats-io/nats.go"
)

// RepublishCall publishes a call again that was acknowledged without a result, because it
// waited elsewhere. The worker handles it as a redelivery. The key identifies this message.
func (b *Bus) RepublishCall(ctx context.Context, subject string, body []byte, key string, header nats.Header) error {
	all := nats.Header{idHeader: {key}}
	maps.Copy(all, header)
	_, err := b.Publish(ctx, Message{Subject: subject, Body: body, Header: all, Key: key, WaitIfFull: true})
	return err
}
