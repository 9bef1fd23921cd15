package bus

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// attemptHeader carries the attempts that a requeued message has behind it,
// idHeader the id that it had, because both would otherwise start afresh.
const (
	attemptHeader = "Stevedore-Attempt"
	idHeader      = "Stevedore-Id"
)

// maxDeliveryID is the longest id, in bytes, that is taken from a header. It
// goes into records and headers of ours, so it must not fill them.
const maxDeliveryID = 1024

// maxBehind is the most that a header may say of earlier attempts; headers come
// from anybody.
const maxBehind = 1000

// Delivery is one message in the hands of a handler, with its lease.
type Delivery struct {
	Subject string
	Body    []byte
	// Attempt counts the deliveries, from 1. Those that a stop interrupted are
	// left out where the consumer can.
	Attempt int
	// Again is set if the message, or one that it was made from, may have been
	// delivered before.
	Again bool
	// Final is set when no further attempt will be made.
	Final bool
	// Published is when the stream stored the message.
	Published time.Time
	Sequence  uint64

	nc       *nats.Conn
	out      *outgoing
	msg      *nats.Msg
	detach   func() // gives the slot back
	detached atomic.Bool
}

// newDelivery reads what the server says about the delivery.
func newDelivery(nc *nats.Conn, out *outgoing, msg *nats.Msg) (*Delivery, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("delivery on %q: %w", msg.Subject, err)
	}
	d := &Delivery{
		Subject: msg.Subject, Body: msg.Data,
		Attempt: int(meta.NumDelivered), Published: meta.Timestamp, Sequence: meta.Sequence.Stream,
		nc: nc, out: out, msg: msg,
	}
	header := msg.Header
	if text := header.Get(attemptHeader); text != "" {
		if behind, err := strconv.Atoi(text); err == nil && behind > 0 && behind <= maxBehind {
			d.Attempt += behind
		}
	}
	d.Again = d.Attempt > 1 || header.Get(idHeader) != ""
	return d, nil
}

// ID names the message, the same for every delivery and requeue of it: the
// publisher's Nats-Msg-Id, or else made from the stream sequence.
func (d *Delivery) ID() string { return idOf(d.msg.Header, d.Sequence, d.Published) }

func idOf(header nats.Header, sequence uint64, stored time.Time) string {
	for _, name := range []string{idHeader, jetstream.MsgIDHeader} {
		if id := header.Get(name); id != "" && len(id) <= maxDeliveryID {
			return id
		}
	}
	// Sequences begin again when a stream is made anew; times do not.
	return "seq-" + strconv.FormatUint(sequence, 10) + "-" + strconv.FormatInt(stored.UnixNano(), 16)
}

// Header returns the value of an incoming header. Headers come from anybody and
// are never passed on.
func (d *Delivery) Header(name string) string { return d.msg.Header.Get(name) }

// Detach gives the handler's slot to the next message while the handler goes
// on: for handlers that only wait. The lease is kept.
func (d *Delivery) Detach() {
	if d.detached.CompareAndSwap(false, true) {
		d.detach()
	}
}
