package bus

import "github.com/nats-io/nats.go"

// requeue returns an interrupted message to its consumer, so that another process gets it
// immediately.
func (k *consumption) requeue(d *Delivery) error {
	<-k.pulled // otherwise this consumer would get it again
	return d.nak(0)
}

// republished returns the header of a message that is published again after it was
// delivered. Its attempts start again.
func republished(id string) nats.Header {
	return nats.Header{idHeader: {id}, attemptHeader: {"0"}}
}
