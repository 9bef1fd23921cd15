package simulate

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/integration/slow"
)

// seedTime is how long "make simulate" simulates a seed.
const seedTime = 2 * time.Hour

// shortTime has all parts of an hour: faults, what follows from them, and calmTime.
const shortTime = 30 * time.Minute

// TestSimulate runs one seed for shortTime, or for an hour if slow tests run. STEVEDORE_SIMULATE=N runs N seeds for
// seedTime, or for STEVEDORE_SIMULATE_MINUTES; STEVEDORE_SIMULATE_SEED is the first one.
func TestSimulate(t *testing.T) {
	seeds := number(t, "STEVEDORE_SIMULATE", 0)
	duration := time.Duration(number(t, "STEVEDORE_SIMULATE_MINUTES", uint64(seedTime/time.Minute))) * time.Minute
	if seeds == 0 {
		duration, seeds = shortTime, 1
		if slow.Run() {
			duration = time.Hour
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // in virtual time, more threads only spin
	first := number(t, "STEVEDORE_SIMULATE_SEED", 1)
	for seed := first; seed < first+seeds; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			s := newSimulation(seed, 0)
			s.hour = max(min(duration, time.Hour), shortTime)
			if powerFails {
				s.disks = newPowered(t, "")
				s.dir = s.disks.dir
			} else {
				s.dir = t.TempDir()
			}
			if seed%2 == 0 {
				s.artifacts = t.TempDir()
			}
			began, checked, power := time.Now(), 0, ""
			if powerFails {
				power = "STEVEDORE_SIMULATE_POWER=1 "
			}
			t.Cleanup(func() { // a bubble that fails ends the test
				if t.Failed() {
					t.Logf("to repeat it: %sSTEVEDORE_SIMULATE=1 STEVEDORE_SIMULATE_SEED=%d STEVEDORE_SIMULATE_MINUTES=%.0f %s", power,
						seed, duration.Minutes(), "go test -count=1 -run TestSimulate -v ./integration/simulate")
					var faults strings.Builder
					for _, event := range s.events {
						fmt.Fprintln(&faults, event)
					}
					t.Logf("the faults: \n%s", faults.String())
				}
			})
			var seconds atomic.Int64
			watching, stop := context.WithCancel(t.Context())
			defer stop()
			go watchTime(watching, &seconds)
			bustest.Bubble(t, func(t *testing.T) {
				go countTime(t.Context(), &seconds)
				s.t, s.began = t, time.Now()
				s.run(duration)
				checked = s.judge() + s.neighbour.judge()
				s.close()
			})
			t.Logf("seed %d: %v simulated in %.1f s, %d calls, %d retried letters, %d faults, %d promises checked",
				seed, duration, time.Since(began).Seconds(), s.calls+s.neighbour.calls, s.letters+s.neighbour.letters, s.faults, checked)
		})
	}
}

// standstill is how long virtual time may stand still, however slow the machine is.
const standstill = 5 * time.Minute

// watchTime ends the process if the seconds of virtual time stand still: then somebody tries something again and again
// without a pause.
func watchTime(ctx context.Context, seconds *atomic.Int64) {
	for last := seconds.Load(); ; last = seconds.Load() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(standstill):
		}
		if seconds.Load() == last {
			debug.SetTraceback("all")
			panic(fmt.Sprint("virtual time stands still after ", time.Duration(last)*time.Second, ": somebody tries something again and again without a pause"))
		}
	}
}

// countTime counts the seconds of virtual time until ctx ends.
func countTime(ctx context.Context, seconds *atomic.Int64) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
			seconds.Add(1)
		}
	}
}

func number(t *testing.T, name string, def uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: want a number: %v", name, err)
	}
	return n
}
