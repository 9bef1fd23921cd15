package task_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/task"
)

// BenchmarkList lists 100,000 async calls of a session, half of which have ended, and
// reports how many times as long as for a tenth of them it takes, also for a page of 50.
//
//	go test ./bus/task -run '^$' -bench List -benchtime 3x
func BenchmarkList(b *testing.B) {
	bus := bustest.New(b)
	js := bus.JetStream()
	counts := map[string]int{"tenth": 10_000, "all": 100_000}
	for session, count := range counts {
		publish := func(kind, id, outcome string) jetstream.PubAckFuture {
			body := fmt.Appendf(nil, `{"id":%q,"session":%q,"tool":"x","outcome":%q,"started_at":"2026-01-01T00:00:00Z","duration_ms":12,"attempt":1,"worker":"w","content":%q}`,
				id, session, outcome, strings.Repeat("x", 200))
			future, err := js.PublishAsync("stevedore."+kind+"."+session+"."+id, body)
			if err != nil {
				b.Fatal(err)
			}
			return future
		}
		for i := range count {
			future := publish("result", fmt.Sprint("t", i), "async")
			if i%2 == 0 {
				future = publish("completion", fmt.Sprint("t", i), "completed")
			}
			if i%1000 == 0 {
				<-future.Ok()
			}
		}
		<-js.PublishAsyncComplete()
	}
	list := func(session string) float64 {
		begin := time.Now()
		l, err := task.List(b.Context(), bus, session)
		if err != nil || len(l.Tasks)+l.Omitted != counts[session] {
			b.Fatalf("%d tasks, %d omitted, %v", len(l.Tasks), l.Omitted, err)
		}
		return time.Since(begin).Seconds()
	}
	// page reads three pages of 50 and returns the time of the slowest.
	page := func(session string) (slowest float64) {
		p := task.Page{Limit: 50}
		for range 3 {
			begin := time.Now()
			l, err := task.ListPage(b.Context(), bus, session, p)
			if err != nil || len(l.Tasks) != p.Limit || l.Next == "" {
				b.Fatalf("%d tasks, next %q, %v", len(l.Tasks), l.Next, err)
			}
			slowest, p.After = max(slowest, time.Since(begin).Seconds()), l.Next
		}
		return slowest
	}
	for b.Loop() {
		tenth, all := list("tenth"), list("all")
		b.ReportMetric(all, "s")
		b.ReportMetric(all/tenth, "ratio")
		tenth, all = page("tenth"), page("all")
		b.ReportMetric(all, "page-s")
		b.ReportMetric(all/tenth, "page-ratio")
	}
	b.ReportMetric(0, "ns/op")
}
