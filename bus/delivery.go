package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	d := &Delivery{Subject: msg.Subject, Body: msg.Data, nc: nc, out: out, msg: msg}
	if err := d.readReply(msg.Reply); err != nil {
		return nil, err
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

// readReply reads what the server writes into the reply subject, which is
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<consumer's sequence>.<nanoseconds>.<pending>
//
// with a domain and a hash of the account behind ACK where there is a domain
// (server ADR-15). Each delivery pays for it, so it is not left to
// nats.Msg.Metadata, which takes five times as long.
func (d *Delivery) readReply(reply string) error {
	var tokens [12]string
	n := 0
	for token := range strings.SplitSeq(reply, ".") {
		if n < len(tokens) {
			tokens[n] = token
		}
		n++
	}
	first := 4 // the deliveries
	if n > 9 {
		first = 6
	}
	deliveries, err1 := strconv.ParseUint(tokens[first], 10, 31)
	sequence, err2 := strconv.ParseUint(tokens[first+1], 10, 64)
	stored, err3 := strconv.ParseUint(tokens[first+3], 10, 63)
	if err := errors.Join(err1, err2, err3); err != nil || n < 9 || n == 10 || tokens[0] != "$JS" || tokens[1] != "ACK" {
		return fmt.Errorf("delivery on %q: the reply subject %q is not JetStream's", d.Subject, reply)
	}
	d.Attempt, d.Sequence, d.Published = int(deliveries), sequence, time.Unix(0, int64(stored))
	return nil
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
