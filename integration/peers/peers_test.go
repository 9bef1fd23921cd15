// Package peers compares durable jobs per second, from their submission to their stored
// result, with other job systems: the same machine, the same number of clients, a job that
// does nothing, rounds in random order. It prints one table. A module of its own keeps the
// dependencies of the other systems out of the main module.
package peers

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// system is a job system that runs.
type system struct {
	name string
	// do submits a job and returns when the system has stored it, or its result.
	do func(ctx context.Context, payload []byte) error
	// handled, if not nil, counts the jobs that were handled.
	handled *atomic.Int64
	// process, if not nil, is measured: the server and the worker.
	process *os.Process
	close   func()
}

var (
	clients  = flag.Int("clients", 64, "the number of clients that submit one job at a time")
	jobs     = flag.Int("jobs", 2000, "jobs of each round")
	rounds   = flag.Int("rounds", 3, "measured rounds")
	onlyBare = flag.Bool("bare", false, "compare only with the bare pipeline")
)

func TestPeers(t *testing.T) {
	starts := []func(bool) (system, error){stevedoreSubmit, stevedoreCall, stevedorePublished, barePipeline, asyncJobs, watermillNATS, riverQueue, redisQueue}
	if *onlyBare {
		starts = starts[:4]
	}
	fmt.Printf("%d clients, %d rounds of %d jobs, 256 B; nats-server %s; median jobs/s\n\n", *clients, *rounds, *jobs, natsserver.VERSION)
	fmt.Println("| system | sync | jobs/s | range | CPU per job | Stevedore is faster by |\n|---|---|---|---|---|---|")
	for _, sync := range []bool{true, false} {
		var systems []system
		for _, start := range starts {
			s, err := start(sync)
			if err != nil {
				t.Log("skipped:", err)
				continue
			}
			systems = append(systems, s)
		}
		rates, costs := map[string][]float64{}, map[string][]float64{}
		for round := range *rounds + 1 {
			rand.Shuffle(len(systems), func(i, j int) { systems[i], systems[j] = systems[j], systems[i] })
			for _, s := range systems {
				var before time.Duration
				if s.process != nil {
					before = cpuTime(s.process)
				}
				rate, err := s.measure(*clients, *jobs)
				if err != nil {
					t.Fatal(s.name+":", err)
				}
				if round > 0 { // the first one warms up
					rates[s.name] = append(rates[s.name], rate)
					if s.process != nil {
						used := cpuTime(s.process) - before
						costs[s.name] = append(costs[s.name], float64(used.Microseconds())/float64(*jobs))
					}
				}
			}
		}
		slices.SortFunc(systems, func(a, b system) int { return strings.Compare(a.name, b.name) })
		for _, s := range systems {
			s.close()
			faster := "-"
			if !strings.HasPrefix(s.name, "Stevedore") {
				faster = fmt.Sprintf("%.1f (rpc.submit), %.1f (rpc.call)", median(rates[submitName])/median(rates[s.name]), median(rates[callName])/median(rates[s.name]))
			}
			cost := "-"
			if s.process != nil {
				cost = fmt.Sprintf("%.0f us", median(costs[s.name]))
			}
			each := rates[s.name]
			fmt.Printf("| %s | %s | %.0f | %.0f to %.0f | %s | %s |\n", s.name, map[bool]string{true: "every write", false: "default"}[sync], median(each), slices.Min(each), slices.Max(each), cost, faster)
		}
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// measure returns the jobs per second.
func (s system) measure(clients, jobs int) (float64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	payload := []byte(`{"text":"` + strings.Repeat("x", 200) + `"}`)
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		first atomic.Pointer[error]
		want  int64
	)
	if s.handled != nil {
		want = s.handled.Load() + int64(jobs)
	}
	begin := time.Now()
	for range clients {
		wg.Go(func() {
			for next.Add(1) <= int64(jobs) {
				if err := s.do(ctx, payload); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return 0, *err
	}
	for s.handled != nil && s.handled.Load() < want {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	return float64(jobs) / time.Since(begin).Seconds(), nil
}
