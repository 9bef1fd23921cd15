package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

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
