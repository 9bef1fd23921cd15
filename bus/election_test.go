package bus_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// A cluster answers for a new stream, bucket or consumer after the replicas have elected a
// leader. A second vote begins after up to 9 s. Provisioning once failed on busy machines,
// because a request had less time, or because its answer was lost: a leader drops the answer if
// the client's server has told it nothing of the client yet.
func TestProvisionDuringElections(t *testing.T) {
	const election = 9 * time.Second
	bustest.Bubble(t, func(t *testing.T) {
		s := bustest.Server(t)
		api := bustest.Dial(t, s, bus.Config{}).Conn()
		var created atomic.Int32
		_, err := api.Subscribe("slow.>", func(m *nats.Msg) {
			subject := "$JS.API." + strings.TrimPrefix(m.Subject, "slow.")
			answer, err := api.RequestMsg(&nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}, time.Second)
			if err != nil {
				return // the test has failed and ended
			}
			if strings.Contains(subject, ".CREATE.") || strings.Contains(subject, ".UPDATE.") {
				if created.Add(1)%2 == 1 {
					return // each first answer is lost
				}
				time.Sleep(election)
			}
			_ = m.RespondMsg(&nats.Msg{Header: answer.Header, Data: answer.Data}) // the client may have disconnected
		})
		if err == nil {
			err = api.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		b := bustest.Dial(t, s, bus.Config{APIPrefix: "slow", MaxBytes: 16 << 20})
		if _, err := admin.Provision(t.Context(), b, admin.Nothing); err != nil {
			t.Fatal(err)
		}
		bustest.Consumers(t, b, b.TickConsumer(), b.NotifierConsumer(), b.DeadConsumer(), b.WorkerConsumer(bus.DefaultQueue))
		bigger := bustest.Dial(t, s, bus.Config{APIPrefix: "slow", MaxBytes: 17 << 20})
		if _, err := admin.Provision(t.Context(), bigger, admin.Everything); err != nil {
			t.Fatal(err)
		}
		// Streams, buckets, consumers, and streams with a size.
		if got, want := created.Load(), int32(2*(6+4+4+5)); got != want {
			t.Errorf("the server got %d requests to create or change something, want %d", got, want)
		}
	})
}
