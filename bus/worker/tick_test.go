package worker_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/schedule"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// Ticks that come while the call of an earlier one runs are skipped; the next
// one after its answer runs.
func TestTicksDoNotOverlap(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	entered, release := make(chan struct{}, 100), make(chan struct{})
	start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, func() { entered <- struct{}{}; <-release }))
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	seen := bustest.Subscribe(t, b, "stevedore.run.>")
	tick := schedule.Schedule{Kind: bus.Heartbeat, Name: "main", Every: time.Second, Body: []byte(`{"tool":"echo","args":{"text":"x"}}`)}
	if _, err := schedule.New(b).Put(t.Context(), tick); err != nil {
		t.Fatal(err)
	}
	<-entered
	first, _ := bustest.Next[map[string]any](t, seen)
	waitSlot(t, b, 2)
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs at once", n)
	}
	close(release)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != first["call"] || got.Action != bus.Heartbeat {
		t.Errorf("result %+v of %v", got, first)
	}
	second, _ := bustest.Next[map[string]any](t, seen)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != second["call"] || got.ID == first["call"] {
		t.Errorf("result %+v of %v", got, second)
	}
}

// waitSlot waits until the schedule has fired n more times.
func waitSlot(t *testing.T, b *bus.Bus, n int) {
	t.Helper()
	var from time.Time
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s, ok, err := schedule.New(b).Get(t.Context(), bus.Heartbeat, "main")
		if err != nil || !ok || time.Now().After(deadline) {
			t.Fatalf("schedule: %v, %v", ok, err)
		}
		if from.IsZero() {
			from = s.Last
		}
		if s.Last.Sub(from) >= time.Duration(n)*s.Every {
			return
		}
	}
}

// callOf returns the id of the call of somebody's own tick, and its slot.
func callOf(t *testing.T, b *bus.Bus, job string) (call, slot string) {
	t.Helper()
	stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Ticks))
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), b.Tick(bus.Cron, job))
	if err != nil {
		t.Fatal(err)
	}
	at := msg.Time.UTC()
	return fmt.Sprintf("cron-%s-%s-%d", job, strings.Replace(at.Format("20060102T150405.999999999Z"), ".", "", 1), msg.Sequence), at.Format(time.RFC3339Nano)
}

// A worker that died between the record of a run and the call's publish is
// delivered the tick again, and publishes the call then.
func TestTickAfterACrash(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	call, slot := callOf(t, b, "job")
	submit(t, b, "stevedore.run.cron.job", `{"call":"`+call+`","session":"cron-job","slot":"`+slot+`","deadline":"2099-01-01T00:00:00Z"}`)
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, nil))
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != call {
		t.Errorf("result %+v, want of %s", got, call)
	}
}

// A tick that was answered is no second call: a server that was killed makes the
// ticks of its last minutes again, for the same slots.
func TestTickThatIsMadeAgain(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	call, slot := callOf(t, b, "job")
	submit(t, b, "stevedore.run.cron.job", `{"call":"`+call+`","session":"cron-job","slot":"`+slot+`","deadline":"2099-01-01T00:00:00Z"}`)
	submit(t, b, "stevedore.result.cron-job."+call, `{"id":"`+call+`","session":"cron-job","outcome":"completed"}`)
	submit(t, b, "stevedore.tick.cron.other", `{"tool":"echo","args":{"text":"other"}}`)
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Session != "cron-other" {
		t.Errorf("result %+v", got)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// The clock was years ahead when a job ran last, and was set right: the job runs
// again, because what comes later is newer, whatever the clock shows.
func TestTickAfterTheClockWasAhead(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.run.cron.job", `{"call":"cron-job-20990101T000000Z","session":"cron-job","slot":"2099-01-01T00:00:00Z","deadline":"2001-01-01T00:00:00Z","tick":1}`)
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, nil))
	bustest.Next[tools.ResultEvent](t, results)
}

// A tick that is delivered once more when a later one ran already is skipped.
func TestTickThatIsLate(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"late"}}`)
	submit(t, b, "stevedore.run.cron.job", `{"call":"cron-job-1","session":"cron-job","slot":"2001-01-01T00:00:00Z","deadline":"2001-01-01T00:00:00Z","tick":3}`)
	submit(t, b, "stevedore.tick.cron.other", `{"tool":"echo","args":{"text":"other"}}`)
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Session != "cron-other" {
		t.Errorf("result %+v", got)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}
