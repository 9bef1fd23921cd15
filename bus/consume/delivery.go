package consume

import (
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Delivery is a message that a handler received, with its lease.
type Delivery struct {
	Subject string
	Body    []byte
	// Attempt counts the deliveries, from 1.
	Attempt int
	// Redelivered is set if the message may have been delivered before, so that another
	// process may handle it.
	Redelivered bool
	// Republished is set if bus.Bus.Republish published the message. The one that it was made
	// of was delivered before, and settled.
	Republished bool
	// Final is set for the last attempt.
	Final bool
	// Published is when the stream stored the message.
	Published time.Time
	Sequence  uint64
	// Ahead is set if the consumer has not delivered the message yet: its session has its turn
	// (Config.TakeAhead).
	Ahead bool

	bus      *bus.Bus
	msg      *nats.Msg
	number   uint64 // of the deliveries of the consumer
	pending  uint64 // how many messages waited behind it
	detach   func() // releases the slot
	released atomic.Bool
	detached atomic.Bool
}

// newDelivery decodes the metadata of the delivery.
func newDelivery(b *bus.Bus, msg *nats.Msg) (*Delivery, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("delivery on %q: %w", msg.Subject, err)
	}
	d := &Delivery{
		Subject: msg.Subject, Body: msg.Data,
		Attempt: int(meta.NumDelivered), Sequence: meta.Sequence.Stream,
		Published: meta.Timestamp,
		bus:       b, msg: msg,
		number: meta.Sequence.Consumer, pending: meta.NumPending,
	}
	d.Redelivered, d.Republished = d.Attempt > 1, d.stored().Republished()
	return d, nil
}

// aheadDelivery returns a stored message as the delivery of one that is handled ahead.
func aheadDelivery(b *bus.Bus, m jsapi.Message) *Delivery {
	msg := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	d := &Delivery{Subject: m.Subject, Body: m.Data, Attempt: 1, Sequence: m.Sequence, Published: m.Time, Ahead: true, bus: b, msg: msg}
	d.Republished = d.stored().Republished()
	return d
}

func (d *Delivery) stored() bus.Stored {
	return bus.Stored{Subject: d.Subject, Sequence: d.Sequence, At: d.Published, Header: d.msg.Header, Body: d.Body}
}

// ID identifies the message over all deliveries and republishes, as bus.Stored.ID does.
func (d *Delivery) ID() string { return d.stored().ID() }

// Order orders calls as they were accepted, as bus.Stored.Order does.
func (d *Delivery) Order() uint64 { return d.stored().Order() }

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
	return d.bus.Send(d.msg.Reply, []byte(ackDone))
}

// nak asks for another delivery, immediately or after a delay.
func (d *Delivery) nak(delay time.Duration) error {
	if delay <= 0 {
		return respond(d.bus.Conn(), d.msg, ackNak)
	}
	return respond(d.bus.Conn(), d.msg, fmt.Sprintf(`%s {"delay":%d}`, ackNak, delay.Nanoseconds()))
}

// term ends the deliveries of the message.
func (d *Delivery) term(reason string) error { return respond(d.bus.Conn(), d.msg, ackTerm+" "+reason) }
