package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// handBack returns a message that a stop kept from its end, so that somebody
// else gets it at once. A call is published again, because the server would
// count the delivery as an attempt; elsewhere the count does not matter enough,
// and where the stream takes no more, it has to do.
func (k *consumption) handBack(d *Delivery) error {
	<-k.pulled // or it would come to this consumer once more
	if k.consumer.Stream != Calls {
		return d.nak(0)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.work), settleTimeout)
	defer cancel()
	header := nats.Header{idHeader: {d.ID()}, attemptHeader: {strconv.Itoa(d.Attempt - 1)}}
	if tp := d.Header("traceparent"); len(tp) == 55 { // that of W3C version 00
		header["traceparent"] = []string{tp}
	}
	if ttl := ttlLeft(d); ttl != "" {
		header[jetstream.MsgTTLHeader] = []string{ttl}
	}
	_, err := k.bus.Publish(ctx, Message{
		Subject: d.Subject, Body: d.Body, Header: header,
		Key: fmt.Sprintf("handback-%d", d.Sequence),
	})
	if err != nil {
		k.bus.log.Debug().Err(err).Str("subject", d.Subject).Msg("cannot publish again; handed back as an attempt")
		return d.nak(0)
	}
	return d.ack()
}

// ttlLeft is what is left of the time that a message may be kept (Nats-TTL, a
// duration or seconds), or empty if its publisher gave it none. It is a second at
// least, the least that a server takes.
func ttlLeft(d *Delivery) string {
	text := d.Header(jetstream.MsgTTLHeader)
	ttl, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil { // none, or "never"
			return ""
		}
		ttl = time.Duration(seconds) * time.Second
	}
	if ttl <= 0 {
		return ""
	}
	return max(ttl-time.Since(d.Published), time.Second).Round(time.Second).String()
}
