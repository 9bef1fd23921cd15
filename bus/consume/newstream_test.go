package consume_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/consume"
)

// The stream of calls is lost with its disk while a worker runs. The new one begins at 1 again, so other calls have the
// sequences there of those that the worker settled before: it does not remove them.
func TestSettledBeforeTheStreamWasLost(t *testing.T) {
	for name, size := range map[string]int{"behind a call that runs": 600 << 10, "just before": 10} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.New(t)
				end, started := make(chan struct{}), make(chan struct{})
				defer close(end)
				work(t, b, "q", func(_ context.Context, d *consume.Delivery) error {
					started <- struct{}{}
					if strings.Contains(d.Subject, "long") {
						<-end
					}
					return nil
				})
				send := func(id string, size int) {
					t.Helper()
					m := bus.Message{Subject: b.Call("q", "x", "s", id), Body: fmt.Appendf(nil, "%q", strings.Repeat("x", size))}
					if _, err := b.Publish(t.Context(), m); err != nil {
						t.Fatal(err)
					}
					<-started
				}
				if size > 10 {
					send("long1", 10)
					send("short1", size)
					time.Sleep(30 * time.Second)
				} else {
					for i := range 40 {
						send(fmt.Sprint("short1", i), size)
						time.Sleep(50 * time.Millisecond)
					}
				}
				stream, err := b.Stream(t.Context(), bus.Calls)
				if err != nil {
					t.Fatal(err)
				}
				config := stream.CachedInfo().Config
				if err := b.JetStream().DeleteStream(t.Context(), config.Name); err != nil {
					t.Fatal(err)
				}
				if _, err := b.JetStream().CreateStream(t.Context(), config); err != nil {
					t.Fatal(err)
				}
				send("long2", 10)
				send("long3", 10)
				send("short2", size)
				time.Sleep(time.Minute)
				for i, id := range []string{"long2", "long3"} {
					if m, err := b.Last(t.Context(), bus.Calls, b.Call("q", "x", "s", id)); err != nil || m.Sequence != uint64(i)+1 {
						t.Errorf("the call %s runs and is stored at %d, %v", id, m.Sequence, err)
					}
				}
			})
		})
	}
}
