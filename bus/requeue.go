package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// requeue returns an interrupted message to its stream, so that another process gets it
// immediately. A call is published again, because a nak would count as an attempt.
// Messages of other streams get a nak. So does a call whose publish fails; it then
// loses one attempt.
func (k *consumption) requeue(d *Delivery) error {
	<-k.pulled // otherwise this consumer would get it again
	if k.consumer.Stream != Calls {
		return d.nak(0)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.work), settleTimeout)
	defer cancel()
	header := nats.Header{idHeader: {d.ID()}, attemptHeader: {strconv.Itoa(d.Attempt - 1)}, publishedHeader: {d.FirstPublished.UTC().Format(time.RFC3339Nano)}}
	if tp := d.Traceparent(); tp != "" {
		header["traceparent"] = []string{tp}
	}
	if ttl := ttlLeft(d); ttl != "" {
		header[jetstream.MsgTTLHeader] = []string{ttl}
	}
	_, err := k.bus.Publish(ctx, Message{
		Subject: d.Subject, Body: d.Body, Header: header,
		Key: fmt.Sprintf("requeue-%d", d.Sequence),
	})
	if err != nil {
		k.bus.log.Debug().Err(err).Str("subject", d.Subject).Msg("cannot republish; requeued, which counts as an attempt")
		return d.nak(0)
	}
	return d.ack()
}

// ttlLeft returns the rest of the TTL of a message (Nats-TTL, a duration or seconds),
// or "" if it has none. It is at least the server's minimum of a second.
func ttlLeft(d *Delivery) string {
	text := d.Header(jetstream.MsgTTLHeader)
	ttl, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil { // no TTL, or "never"
			return ""
		}
		ttl = time.Duration(seconds) * time.Second
	}
	if ttl <= 0 {
		return ""
	}
	return max(ttl-time.Since(d.Published), time.Second).Round(time.Second).String()
}
