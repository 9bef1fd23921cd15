package bus

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// requeue returns an interrupted message to its consumer, so that another process gets it
// immediately.
func (k *consumption) requeue(d *Delivery) error {
	<-k.pulled // otherwise this consumer would get it again
	return d.nak(0)
}

// Refile returns the message that stores the message of d, which no process has started,
// under another subject. It keeps the id, the trace context and the rest of the TTL.
func (d *Delivery) Refile(subject string) Message {
	header := nats.Header{idHeader: {d.ID()}, publishedHeader: {d.FirstPublished.UTC().Format(time.RFC3339Nano)}}
	if tp := d.Traceparent(); tp != "" {
		header["traceparent"] = []string{tp}
	}
	if ttl := ttlLeft(d); ttl != "" {
		header[jetstream.MsgTTLHeader] = []string{ttl}
	}
	return Message{Subject: subject, Body: d.Body, Header: header}
}

// republished returns the header of a message that is published again after it was
// delivered. Its attempts start again.
func republished(id string) nats.Header {
	return nats.Header{idHeader: {id}, attemptHeader: {"0"}}
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
