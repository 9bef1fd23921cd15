package cron

import (
	"fmt"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// BenchmarkAdd adds jobs of several sessions, beside 2,000 others.
func BenchmarkAdd(b *testing.B) {
	for _, others := range []int{0, 2000} {
		for _, sync := range []bool{true, false} {
			b.Run(fmt.Sprintf("others=%d/sync=%t", others, sync), func(b *testing.B) {
				jobs := New(bustest.Connect(b, bustest.Start(b, embedded.Config{NoSync: !sync}), bus.Config{}))
				add := func(i int, prefix string) {
					job := Job{Name: fmt.Sprint(prefix, i), Tool: "shell", Every: time.Hour}
					if _, err := jobs.Add(b.Context(), Caller{Session: fmt.Sprint(prefix, i/MaxJobs)}, job); err != nil {
						b.Fatal(err)
					}
				}
				operator := Caller{Operator: true}
				for i := range others {
					if _, err := jobs.Add(b.Context(), operator, Job{Name: fmt.Sprint("other", i), Tool: "shell", Every: time.Hour}); err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				for i := range b.N {
					add(i, "s")
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}
