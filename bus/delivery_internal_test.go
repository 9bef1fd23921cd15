package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// What is read out of a reply subject is what the client library reads there.
func FuzzDeliveryReply(f *testing.F) {
	for _, seed := range []string{
		"$JS.ACK.CALLS.worker-default.1.17.3.1700000000123456789.42",
		"$JS.ACK.hub.a1b2c3.CALLS.worker-default.2.18.4.1700000000123456789.0",
		"$JS.ACK.hub.a1b2c3.CALLS.worker-default.2.18.4.1700000000123456789.0.token",
		"$JS.ACK._.a1b2c3.CALLS.worker-default.2.18.4.1700000000123456789.0.token.more",
		"$JS.ACK.CALLS.worker-default.x.17.3.1700000000123456789.42",
		"$JS.ACK.CALLS.worker-default.1.17.3", "_INBOX.x.y", "", "$JS.ACK.a.b.-1.1.1.1.1", "a.b.c.d.1.1.1.1.1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		var d Delivery
		if err := d.readReply(reply); err != nil {
			return
		}
		meta, err := (&nats.Msg{Reply: reply, Sub: &nats.Subscription{}}).Metadata()
		if err != nil {
			t.Fatalf("%q: read, but %v", reply, err)
		}
		if uint64(d.Attempt) != meta.NumDelivered || d.Sequence != meta.Sequence.Stream || !d.Published.Equal(meta.Timestamp) {
			t.Errorf("%q: attempt %d, sequence %d, %v; want %+v", reply, d.Attempt, d.Sequence, d.Published, meta)
		}
	})
}

func TestDeliveryReply(t *testing.T) {
	for reply, want := range map[string]bool{
		"$JS.ACK.CALLS.worker-default.1.17.3.1700000000123456789.42":                 true,
		"$JS.ACK.hub.a1b2c3.CALLS.worker-default.2.18.4.1700000000123456789.0.token": true,
		"_INBOX.x.y": false,
		"":           false,
		"$JS.ACK.CALLS.worker-default.first.17.3.1700000000123456789.42": false,
	} {
		if err := new(Delivery).readReply(reply); (err == nil) != want {
			t.Errorf("%q: %v", reply, err)
		}
	}
}
