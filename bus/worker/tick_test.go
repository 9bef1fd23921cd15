package worker_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools"
)

// A tick is skipped while the call of an earlier tick is running. The next tick
// after its result becomes a call.
func TestTicksDoNotOverlap(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		entered, release := make(chan struct{}, 100), make(chan struct{})
		start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, func() { entered <- struct{}{}; <-release }))
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		seen := bustest.Subscribe(t, b, "stevedore.run.>")
		tick := cron.Job{Kind: bus.Heartbeat, Name: "main", Every: time.Second, Tool: "echo", Args: json.RawMessage(`{"text":"x"}`)}
		if _, err := cron.New(b).Put(t.Context(), tick, true); err != nil {
			t.Fatal(err)
		}
		<-entered
		first, _ := bustest.Next[map[string]any](t, seen)
		waitDue(t, b, 2)
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
	})
}

// waitDue waits until the schedule has fired n more times.
func waitDue(t *testing.T, b *bus.Bus, n int) {
	t.Helper()
	var from time.Time
	bustest.WaitUntil(t, "ticks", func() bool {
		tick, err := b.Last(t.Context(), bus.Ticks, b.Tick(bus.Heartbeat, "main"))
		if err != nil {
			t.Fatal(err)
		}
		if from.IsZero() {
			from = tick.At
		}
		return tick.At.Sub(from).Round(time.Second) >= time.Duration(n)*time.Second
	})
}

// callOf returns the id and the due time of the call of a tick that a client published.
func callOf(t *testing.T, b *bus.Bus, job string) (call, due string) {
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

// If a worker dies after it stored the run record and before it published the call,
// the redelivered tick becomes the call.
func TestTickAfterCrash(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	call, due := callOf(t, b, "job")
	submit(t, b, "stevedore.run.cron.job", `{"call":"`+call+`","session":"cron-job","slot":"`+due+`","deadline":"2099-01-01T00:00:00Z"}`)
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, nil))
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != call {
		t.Errorf("result %+v, want of %s", got, call)
	}
}

// A schedule or a run that an edited consumer delivers becomes no call: only a tick does.
func TestOnlyTicksBecomeCalls(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
	var consumer jetstream.Consumer
	bustest.WaitUntil(t, "the consumer", func() (ok bool) {
		var err error
		consumer, err = b.JetStream().Consumer(t.Context(), b.StreamName(bus.Ticks), "ticks")
		return err == nil
	})
	config := consumer.CachedInfo().Config
	config.FilterSubject, config.FilterSubjects = "stevedore.>", nil
	if _, err := b.JetStream().UpdateConsumer(t.Context(), b.StreamName(bus.Ticks), config); err != nil {
		t.Fatal(err)
	}
	submit(t, b, "stevedore.run.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	submit(t, b, "stevedore.tick.cron.other", `{"tool":"echo","args":{"text":"other"}}`)
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.Session != "cron-other" || runs.Load() != 1 {
		t.Errorf("result %+v, %d runs", got, runs.Load())
	}
}

// A tick whose call has a result does not become a second call: a server that was
// killed publishes the ticks of its last minutes again, for the same due times.
func TestRepeatedTick(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	call, due := callOf(t, b, "job")
	submit(t, b, "stevedore.run.cron.job", `{"call":"`+call+`","session":"cron-job","slot":"`+due+`","deadline":"2099-01-01T00:00:00Z"}`)
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

// The clock was years ahead at the last run and was corrected. The schedule runs
// again, because runs are ordered by the sequence of their ticks.
func TestTickAfterClockWasAhead(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.run.cron.job", `{"call":"cron-job-20990101T000000Z","session":"cron-job","slot":"2099-01-01T00:00:00Z","deadline":"2001-01-01T00:00:00Z","tick":1}`)
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, nil))
	bustest.Next[tools.ResultEvent](t, results)
}

// A tick that is redelivered after a later tick ran is skipped.
func TestLateTick(t *testing.T) {
	t.Parallel()
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

// Of two ticks that waited, only the newest runs, also if runs may overlap.
func TestOneRunAfterAnOutage(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	for _, text := range []string{"old", "new"} {
		submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"`+text+`"},"overlap":true}`)
	}
	submit(t, b, "stevedore.tick.cron.other", `{"tool":"echo","args":{"text":"other"}}`)
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
	var got []string
	for range 2 {
		result, _ := bustest.Next[tools.ResultEvent](t, results)
		got = append(got, result.ForLLM)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"new", "other"}) {
		t.Errorf("results %q", got)
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs", n)
	}
}

// A worker died after it stored the run record, and a later tick has replaced the one that
// would have published the call. The later tick starts that call, once, and the next one runs.
func TestTickAfterLostCall(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		const lost = "cron-job-20010101T000000Z"
		submit(t, b, "stevedore.run.cron.job",
			`{"call":"`+lost+`","session":"cron-job","slot":"`+time.Now().UTC().Format(time.RFC3339Nano)+`","deadline":"2099-01-01T00:00:00Z","tick":1}`)
		submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != lost {
			t.Errorf("result of %s, want of %s", got.ID, lost)
		}
		submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
		call, _ := callOf(t, b, "job")
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != call {
			t.Errorf("result of %s, want of %s", got.ID, call)
		}
		if n := runs.Load(); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}

// A run whose result has left the stream has ended; its call does not run again.
func TestTickAfterResultThatExpired(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var runs atomic.Int64
	const old = "cron-job-20010101T000000Z"
	submit(t, b, "stevedore.result.cron-job."+old, `{}`)
	stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Results))
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	submit(t, b, "stevedore.run.cron.job", `{"call":"`+old+`","session":"cron-job","slot":"2001-01-01T00:00:00Z","deadline":"2099-01-01T00:00:00Z","tick":1}`)
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	call, _ := callOf(t, b, "job")
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != call {
		t.Errorf("result of %s, want of %s", got.ID, call)
	}
}

// A call that was lost again, because somebody removes it, does not block its schedule.
func TestTickAfterRemovedCall(t *testing.T) {
	b := bustest.New(t)
	var runs atomic.Int64
	submit(t, b, "stevedore.run.cron.job",
		`{"call":"cron-job-20010101T000000Z","session":"cron-job","slot":"2001-01-01T00:00:00Z","deadline":"2099-01-01T00:00:00Z","tick":1,"restarted":true}`)
	submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
	call, _ := callOf(t, b, "job")
	results := bustest.Subscribe(t, b, "stevedore.result.>")
	start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
	if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != call {
		t.Errorf("result of %s, want of %s", got.ID, call)
	}
}

// The call of a tick cannot be published because the stream of calls refuses it. Once it
// accepts calls again, the schedule goes on: the call is neither lost nor doubled.
func TestTickWhoseCallIsRefused(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		setCalls(t, b, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize = 1 })
		records := bustest.Subscribe(t, b, "stevedore.run.>")
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		start(t, b, worker.Config{Ticks: true, Slots: 1}, echo(t, "echo", tools.Idempotent, &runs, nil))
		submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
		first, _ := bustest.Next[cron.RunRecord](t, records)
		bustest.WaitUntil(t, "a dead letter", func() bool { return bustest.Messages(t, b, bus.Dead) > 0 })
		setCalls(t, b, func(cfg *jetstream.StreamConfig) { cfg.MaxMsgSize = -1 })
		submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
		if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != first.Call {
			t.Errorf("result of %s, want of %s", got.ID, first.Call)
		}
	})
}

// Somebody deletes the consumer of ticks. The next one delivers the tick of a job that ran once long ago: it is over, and its
// owner does not hear that it came too late.
func TestTickOfAJobThatIsOver(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		stop := start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, func() { time.Sleep(time.Second) }))
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		job := cron.Job{Name: "once", At: time.Now().Add(time.Second), Tool: "echo", Args: json.RawMessage(`{"text":"x"}`), Timeout: time.Minute}
		if _, err := cron.New(b).Add(t.Context(), cron.Caller{}, job); err != nil {
			t.Fatal(err)
		}
		bustest.Next[tools.ResultEvent](t, results)
		waitEmpty(t, b)
		stop()
		time.Sleep(time.Hour)
		stored, err := b.Stream(t.Context(), bus.Results)
		if err == nil {
			err = stored.Purge(t.Context()) // as if they had expired
		}
		if err == nil {
			err = b.JetStream().DeleteConsumer(t.Context(), b.StreamName(bus.Ticks), b.TickConsumer().Name)
		}
		if err != nil {
			t.Fatal(err)
		}
		start(t, b, worker.Config{Ticks: true}, echo(t, "echo", tools.Idempotent, &runs, nil))
		bustest.WaitUntil(t, "the tick", func() bool {
			info, ok, err := b.ConsumerInfo(t.Context(), b.TickConsumer())
			return err == nil && ok && info.AckFloor.Stream > 0
		})
		waitEmpty(t, b)
		if n := bustest.Messages(t, b, bus.Results); n != 0 || runs.Load() != 1 {
			t.Errorf("%d results after %d runs", n, runs.Load())
		}
	})
}

// setCalls changes the calls stream.
func setCalls(t *testing.T, b *bus.Bus, change func(*jetstream.StreamConfig)) {
	t.Helper()
	stream, err := b.JetStream().Stream(t.Context(), b.StreamName(bus.Calls))
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	change(&cfg)
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

func full(cfg *jetstream.StreamConfig)  { cfg.MaxBytes = 1 }
func roomy(cfg *jetstream.StreamConfig) { cfg.MaxBytes = -1 }

// While the calls stream is full, the call of a tick waits for space and later ticks are skipped: none of them
// begins before it, or beside it. Two workers take the ticks.
func TestTicksWhileCallsAreFull(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		tick := func() string {
			submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
			call, _ := callOf(t, b, "job")
			time.Sleep(30 * time.Second)
			return call
		}
		setCalls(t, b, full)
		results := bustest.Subscribe(t, b, "stevedore.result.>")
		for range 2 {
			defer start(t, b, worker.Config{Ticks: true, Slots: 4}, echo(t, "echo", tools.Idempotent, &runs, nil))()
		}
		first := tick()
		for range 4 {
			tick()
		}
		setCalls(t, b, roomy)
		time.Sleep(time.Minute)
		last := tick()
		for _, want := range []string{first, last} {
			if got, _ := bustest.Next[tools.ResultEvent](t, results); got.ID != want {
				t.Errorf("result of %s, want of %s", got.ID, want)
			}
		}
		if n := runs.Load(); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}

// A worker waits for space with the call of a tick, and meanwhile another run has begun, because this worker was cut off
// or suspended. Its call is dropped: it would run after, or beside, the later one.
func TestTickWhoseRunWasReplaced(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.New(t)
		var runs atomic.Int64
		setCalls(t, b, full)
		defer start(t, b, worker.Config{Ticks: true, Slots: 4}, echo(t, "echo", tools.Idempotent, &runs, nil))()
		submit(t, b, "stevedore.tick.cron.job", `{"tool":"echo","args":{"text":"x"}}`)
		time.Sleep(10 * time.Second)
		submit(t, b, "stevedore.run.cron.job", `{"call":"cron-job-later","session":"cron-job","slot":"2000-01-01T00:00:09Z","deadline":"2099-01-01T00:00:00Z","tick":99}`)
		time.Sleep(10 * time.Second)
		setCalls(t, b, roomy)
		time.Sleep(time.Minute)
		if n := runs.Load(); n != 0 {
			t.Errorf("%d runs of a tick whose place another run has taken", n)
		}
	})
}
