package bus_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// BenchmarkPublish compares Bus.Publish with single publishes of nats.go on the same
// stream, with some publishes in flight. Rounds of both are in random order; it reports
// the medians.
//
//	go test ./bus -run '^$' -bench Publish -benchtime 1x
func BenchmarkPublish(b *testing.B) {
	for _, sync := range []bool{true, false} {
		for _, c := range []struct{ inFlight, count int }{{1, 1000}, {8, 3000}, {16, 3000}, {32, 3000}, {64, 5000}, {500, 10000}} {
			name := fmt.Sprintf("%s/%d", map[bool]string{true: "SyncAlways", false: "NoSync"}[sync], c.inFlight)
			b.Run(name, func(b *testing.B) {
				s := bustest.Start(b, embedded.Config{Listen: "127.0.0.1:0", NoSync: !sync})
				// Connect over TCP, as other processes do.
				client, err := bus.Connect(b.Context(), bus.Config{Server: s.URL()})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(client.Close)
				if _, err := admin.Provision(b.Context(), client, admin.Nothing); err != nil {
					b.Fatal(err)
				}
				body, sent := make([]byte, 256), atomic.Int64{}
				subject := func() string { return client.Result("bench", fmt.Sprint("c", sent.Add(1))) }
				ours := func() error {
					_, err := client.Publish(b.Context(), bus.Message{Subject: subject(), Body: body})
					return err
				}
				theirs := func() error {
					_, err := client.JetStream().Publish(b.Context(), subject(), body)
					return err
				}
				publishAll(b, c.inFlight, c.inFlight, ours) // warm up
				publishAll(b, c.inFlight, c.inFlight, theirs)
				for b.Loop() {
					var rates, ratios []float64
					for range 5 {
						var o, t time.Duration
						if rand.N(2) == 0 {
							o = publishAll(b, c.inFlight, c.count, ours)
						}
						t = publishAll(b, c.inFlight, c.count, theirs)
						if o == 0 {
							o = publishAll(b, c.inFlight, c.count, ours)
						}
						rates, ratios = append(rates, float64(c.count)/o.Seconds()), append(ratios, float64(t)/float64(o))
					}
					slices.Sort(rates)
					slices.Sort(ratios)
					b.ReportMetric(rates[2], "publishes/s")
					b.ReportMetric(ratios[2], "ratio")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// publishAll publishes with some goroutines and returns how long it took.
func publishAll(b *testing.B, goroutines, count int, publish func() error) time.Duration {
	b.Helper()
	begin, left := time.Now(), atomic.Int64{}
	left.Store(int64(count))
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := publish(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}
