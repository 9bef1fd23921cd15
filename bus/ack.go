package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// What a consumer may answer to a delivery, in JetStream's words.
const (
	ackDone     = "+ACK"
	ackProgress = "+WPI"
	ackAgain    = "-NAK"
	ackTerm     = "+TERM"
)

// respond answers a delivery. Nobody confirms it: a lost answer leads to another
// delivery.
func respond(nc *nats.Conn, msg *nats.Msg, answer string) error {
	return nc.Publish(msg.Reply, []byte(answer))
}

func (d *Delivery) ack() error { return d.out.put(d.msg.Reply, []byte(ackDone)) }

// nak asks for another delivery, at once or later.
func (d *Delivery) nak(delay time.Duration) error {
	if delay <= 0 {
		return respond(d.nc, d.msg, ackAgain)
	}
	return respond(d.nc, d.msg, fmt.Sprintf(`%s {"delay":%d}`, ackAgain, delay.Nanoseconds()))
}

// term asks for no other delivery.
func (d *Delivery) term(reason string) error { return respond(d.nc, d.msg, ackTerm+" "+reason) }
