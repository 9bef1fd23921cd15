package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

// Offloader makes results light. *offload.Offloader is the one; its contract is
// that what a light result refers to is durable.
type Offloader interface {
	// Result returns the light form of res. An error means that the store
	// failed, not the tool; res is unchanged.
	Result(ctx context.Context, call tools.Call, def tools.Definition, res *tools.Result) (*tools.Result, error)
	// Raw returns the result that somebody else's tool made.
	Raw(ctx context.Context, raw tools.RawEvent) (*tools.Result, error)
	// Fallback returns what the model gets if res cannot be stored: an honest
	// error with as much of the content as fits.
	Fallback(call tools.Call, res *tools.Result, cause error) *tools.Result
}

// Config says how a worker works. The zero value works.
type Config struct {
	// Name tells this worker from others in events. Default HOST-PID.
	Name string
	// Queues that are served. Default "default". All workers of a queue should have
	// the same tools: each gets some of its calls, and answers one of a tool that it
	// lacks as unknown.
	Queues []string
	// Slots is how many calls of a queue run at once. Default 64.
	Slots int
	// MaxAttempts is how often a call is delivered before it is a dead letter;
	// one that is resumed, such as an agent's, without getting on. Default 5.
	MaxAttempts int
	// Grace is how long running calls may go on after a stop. Default 20 s.
	Grace time.Duration
	// Ticks makes the worker turn the ticks of schedules into calls.
	Ticks bool
	// StoreTimeout is how long a failing store is tried before the model gets
	// an error result instead of the content; it should outlast a restart of
	// the servers. Default 5 min.
	StoreTimeout time.Duration
	// AskTimeout is how long another worker may take to say that it runs a
	// call. Too short, and a once-only call is called unknown while it runs.
	// Default 2 s.
	AskTimeout time.Duration
	// ClaimTimeout is how long nobody must have said that they run a once-only call,
	// which was started, before its outcome is unknown: long enough for a
	// worker to come back from a lost connection. Default: the bus's lease.
	ClaimTimeout time.Duration
	// State, if not nil, is where the channel is recorded on which the user of a
	// session was last heard: that of the newest call that names one.
	State state.Store
	// OnStep, if not nil, is called before each step of a call, for tests that
	// crash there.
	OnStep func(Step)
	// Log takes what happens to calls; their arguments and content stay out.
	Log zerolog.Logger
}

// Worker serves the calls of its queues. Any number of them share the work.
type Worker struct {
	bus       *bus.Bus
	registry  *tools.Registry
	offloader Offloader
	cfg       Config
	log       zerolog.Logger
	running   *running
	counters  *counters
	source    []string // of our events, as a header
}

// New returns a worker that is not running yet.
func New(b *bus.Bus, registry *tools.Registry, offloader Offloader, cfg Config) *Worker {
	if cfg.Name == "" {
		cfg.Name = defaultName()
	}
	if len(cfg.Queues) == 0 {
		cfg.Queues = []string{bus.DefaultQueue}
	}
	if cfg.MaxAttempts <= 0 {
		cfg.MaxAttempts = 5
	}
	if cfg.StoreTimeout <= 0 {
		cfg.StoreTimeout = 5 * time.Minute
	}
	if cfg.AskTimeout <= 0 {
		cfg.AskTimeout = 2 * time.Second
	}
	if cfg.ClaimTimeout <= 0 {
		cfg.ClaimTimeout = b.Lease()
	}
	if cfg.OnStep == nil {
		cfg.OnStep = func(Step) {}
	}
	return &Worker{
		bus: b, registry: registry, offloader: offloader, cfg: cfg, log: cfg.Log,
		running: newRunning(), counters: newCounters(cfg.Queues), source: []string{"/stevedore/worker/" + tools.Token(cfg.Name)},
	}
}

func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// Run serves until ctx ends, and returns when the last call is settled. What it
// needs on the bus is there once Bus.Provision was called, by whomever.
func (w *Worker) Run(ctx context.Context) error {
	for _, queue := range w.cfg.Queues {
		if !tools.IsToken(queue) {
			return fmt.Errorf("queue %q: the name is not of the form %s", queue, tools.TokenForm)
		}
	}
	stop, err := w.answerRunning()
	if err != nil {
		return err
	}
	defer stop()
	withdraw, err := w.answerOffers(ctx)
	if err != nil {
		return err
	}
	defer withdraw()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		errs error
	)
	part := func(group *sync.WaitGroup, do func() error) {
		group.Go(func() {
			if err := do(); err != nil {
				mu.Lock()
				errs = errors.Join(errs, err)
				mu.Unlock()
				cancel(err)
			}
		})
	}
	// Cancellations count until the last call is settled, and all that are on
	// record must be known before the first one starts.
	var watch, serve sync.WaitGroup
	watching, endWatch := context.WithCancel(context.WithoutCancel(ctx))
	defer endWatch()
	ready := make(chan struct{})
	part(&watch, func() error { return w.watchCancellations(watching, func() { close(ready) }) })
	select {
	case <-ready:
	case <-ctx.Done():
	}

	ticks := bus.ConsumeConfig{Slots: w.cfg.Slots, MaxAttempts: w.cfg.MaxAttempts, Grace: w.cfg.Grace}
	calls := ticks
	calls.Spare, calls.GivenUp = w.spare, w.abandon
	consume := func(c bus.Consumer, cfg bus.ConsumeConfig, handler bus.Handler) {
		part(&serve, func() error { return w.bus.Consume(ctx, c, cfg, handler) })
	}
	for _, queue := range w.cfg.Queues {
		consume(w.bus.WorkerConsumer(queue), calls, w.handle)
	}
	if w.cfg.Ticks {
		consume(w.bus.TickConsumer(), ticks, w.handleTick)
		part(&serve, func() error { w.bus.KeepTime(ctx); return nil })
	}
	w.log.Info().Str("worker", w.cfg.Name).Strs("queues", w.cfg.Queues).Msg("worker serves")
	serve.Wait()
	endWatch()
	watch.Wait()
	return errs
}
