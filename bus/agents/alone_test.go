package agents

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/notify"
)

// One process of an installation receives. When it has no connection, it stops, and another one receives. The one that lost its place stops.
func TestOneProcessReceives(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		server := bustest.Server(t)
		type event struct {
			process  int
			receives bool
		}
		events := make(chan event, 10)
		buses := make([]*bus.Bus, 3)
		for i := range buses {
			buses[i] = bustest.Connect(t, server, bus.Config{})
			in := NewInbox(buses[i], new(notify.Notifier), nil, "me", nil, bustest.Log(t))
			bustest.Run(t, func(ctx context.Context) error {
				return in.Alone(ctx, func(ctx context.Context) error {
					events <- event{i, true}
					<-ctx.Done()
					events <- event{i, false}
					return nil
				})
			})
		}
		first := <-events
		buses[first.process].Close()
		second, stopped := <-events, <-events
		if !second.receives {
			second, stopped = stopped, second
		}
		if !first.receives || !second.receives || second.process == first.process || stopped != (event{first.process, false}) {
			t.Fatalf("%+v, then %+v and %+v", first, second, stopped)
		}
		// As if the process had not answered for a while.
		other := buses[3-first.process-second.process]
		alive, err := other.Conn().Subscribe(other.RPC("receiving", "other"), func(m *nats.Msg) { _ = m.Respond(nil) })
		if err != nil {
			t.Fatal(err)
		}
		m, err := other.Entry(t.Context(), "receiver.me")
		if err == nil {
			_, err = other.PutEntry(t.Context(), "receiver.me", []byte("other"), m.Sequence, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := <-events; got != (event{second.process, false}) {
			t.Errorf("after its place was taken: %+v", got)
		}
		if err := alive.Unsubscribe(); err != nil {
			t.Error(err)
		}
		if got := <-events; !got.receives {
			t.Errorf("when the other one is gone: %+v", got)
		}
	})
}
