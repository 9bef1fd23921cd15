package notify

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// stored counts the messages of a stream.
func stored(t *testing.T, b *bus.Bus, stream string) uint64 {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.StreamName(stream))
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// waitAcked waits until a consumer has settled all there is.
func waitAcked(t *testing.T, b *bus.Bus, c bus.Consumer) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		cons, err := b.JetStream().Consumer(t.Context(), b.StreamName(c.Stream), c.Name)
		if err == nil {
			if info := cons.CachedInfo(); info.NumPending == 0 && info.NumAckPending == 0 {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("consumer %s is not done: %v", c.Name, err)
		}
	}
}

func consumerOf(b *bus.Bus, channel string) jetstream.ConsumerConfig {
	c := b.ChannelConsumer(channel)
	return jetstream.ConsumerConfig{Durable: c.Name, FilterSubjects: c.Filter, AckPolicy: jetstream.AckExplicitPolicy}
}
