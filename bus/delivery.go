package bus

import (
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/internal/publisher"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

const (
	// idHeader has the id of a message that was published again: that of the first one.
	idHeader = "Stevedore-Id"
	// attemptHeader has a number of earlier attempts. Only tests send it.
	attemptHeader = "Stevedore-Attempt"
)

// OrderHeader has, in a call that waited elsewhere and was published again, the sequence with
// which it was accepted.
const OrderHeader = "Stevedore-Order"

// ArgsHeader names, in a call that waited elsewhere and was published again, the artifact that
// has its arguments, if they are too large for a record of the wait.
const ArgsHeader = "Stevedore-Parked-Args"

// FreshHeader marks a call whose id its publisher made for it. So no worker needs to find out
// whether an earlier call with the id has ended. A publish that is repeated has no such header.
const FreshHeader = "Stevedore-Fresh"

// PriorityHeader has the priority of a call. A call with another one, or none, has the normal
// priority. If a queue has a backlog, a session gets eight calls of a priority for one of the
// next lower one.
const (
	PriorityHeader = "Stevedore-Priority"
	PriorityHigh   = "high"
	PriorityLow    = "low"
)

// maxDeliveryID is the longest accepted id, in bytes. Ids are copied into records and
// headers, so they must be short.
const maxDeliveryID = 1024

// maxPriorAttempts limits the value of attemptHeader, because any client can set it.
const maxPriorAttempts = 1000

// Delivery is a message that a handler received, with its lease.
type Delivery struct {
	Subject string
	Body    []byte
	// Attempt counts the deliveries, from 1.
	Attempt int
	// Redelivered is set if the message may have been delivered before, so that another
	// process may handle it.
	Redelivered bool
	// Republished is set if Bus.Republish published the message. The one that it was made
	// of was delivered before, and settled.
	Republished bool
	// Final is set for the last attempt.
	Final bool
	// Published is when the stream stored the message.
	Published time.Time
	Sequence  uint64
	// Ahead is set if the consumer has not delivered the message yet: its session has its turn
	// (ConsumeConfig.TakeAhead).
	Ahead bool

	nc       *nats.Conn
	out      *publisher.Publisher
	msg      *nats.Msg
	number   uint64 // of the deliveries of the consumer
	pending  uint64 // how many messages waited behind it
	detach   func() // releases the slot
	released atomic.Bool
	detached atomic.Bool
}

// newDelivery decodes the metadata of the delivery.
func newDelivery(nc *nats.Conn, out *publisher.Publisher, msg *nats.Msg) (*Delivery, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("delivery on %q: %w", msg.Subject, err)
	}
	d := &Delivery{
		Subject: msg.Subject, Body: msg.Data,
		Attempt: int(meta.NumDelivered), Sequence: meta.Sequence.Stream,
		Published: meta.Timestamp,
		nc:        nc, out: out, msg: msg,
		number: meta.Sequence.Consumer, pending: meta.NumPending,
	}
	header := msg.Header
	if text := header.Get(attemptHeader); text != "" {
		if prior, err := strconv.Atoi(text); err == nil && prior > 0 && prior <= maxPriorAttempts {
			d.Attempt += prior
		}
	}
	d.Redelivered, d.Republished = d.Attempt > 1, header.Get(idHeader) != ""
	return d, nil
}

// aheadDelivery returns a stored message as the delivery of one that is handled ahead.
func aheadDelivery(b *Bus, m jsapi.Message) *Delivery {
	msg := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	return &Delivery{
		Subject: m.Subject, Body: m.Data, Attempt: 1, Sequence: m.Sequence, Published: m.Time, Ahead: true,
		Republished: m.Header.Get(idHeader) != "", nc: b.nc, out: b.out, msg: msg,
	}
}

// ID identifies the message over all deliveries and republishes: the publisher's
// Nats-Msg-Id, or an id from the stream sequence.
func (d *Delivery) ID() string { return idOf(d.msg.Header, d.Sequence, d.Published) }

// Order orders calls as they were accepted, over all republishes of calls that waited.
func (d *Delivery) Order() uint64 { return orderOf(d.msg.Header, d.Sequence) }

func orderOf(header nats.Header, sequence uint64) uint64 {
	if order, err := strconv.ParseUint(header.Get(OrderHeader), 10, 64); err == nil && order < sequence {
		return order
	}
	return sequence
}

func idOf(header nats.Header, sequence uint64, stored time.Time) string {
	for _, name := range []string{idHeader, jetstream.MsgIDHeader} {
		if id := header.Get(name); id != "" && len(id) <= maxDeliveryID {
			return id
		}
	}
	// A new stream starts again with sequence 1, so the id includes the time.
	return "seq-" + strconv.FormatUint(sequence, 10) + "-" + strconv.FormatInt(stored.UnixNano(), 16)
}

// Header returns the value of an incoming header. Any client can set headers, so do
// not forward them.
func (d *Delivery) Header(name string) string { return d.msg.Header.Get(name) }

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Traceparent returns the W3C trace context of the message, or "" if it has none or a
// malformed one.
func (d *Delivery) Traceparent() string {
	if tp := d.Header("traceparent"); tp != "" && traceparent.MatchString(tp) {
		return tp
	}
	return ""
}

// Detach releases the slot while the handler continues, for handlers that only wait.
// The lease is kept.
func (d *Delivery) Detach() {
	d.detached.Store(true)
	d.ReleaseSlot()
}

// ReleaseSlot is Detach for a handler that will return soon. The caller limits their
// number.
func (d *Delivery) ReleaseSlot() {
	if d.released.CompareAndSwap(false, true) {
		d.detach()
	}
}

// The replies of the JetStream protocol to a delivery.
const (
	ackDone     = "+ACK"
	ackProgress = "+WPI"
	ackNak      = "-NAK"
	ackTerm     = "+TERM"
)

// respond replies to a delivery. The server does not confirm it: a lost reply leads
// to another delivery. The server expects none for a message that is handled ahead.
func respond(nc *nats.Conn, msg *nats.Msg, reply string) error {
	if msg.Reply == "" {
		return nil
	}
	return nc.Publish(msg.Reply, []byte(reply))
}

func (d *Delivery) ack() error {
	if d.Ahead {
		return nil
	}
	return d.out.Put(d.msg.Reply, []byte(ackDone))
}

// nak asks for another delivery, immediately or after a delay.
func (d *Delivery) nak(delay time.Duration) error {
	if delay <= 0 {
		return respond(d.nc, d.msg, ackNak)
	}
	return respond(d.nc, d.msg, fmt.Sprintf(`%s {"delay":%d}`, ackNak, delay.Nanoseconds()))
}

// term ends the deliveries of the message.
func (d *Delivery) term(reason string) error { return respond(d.nc, d.msg, ackTerm+" "+reason) }
