package worker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/retention"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// Config configures a Worker. The zero value works.
type Config struct {
	// Name identifies this worker in events. Default HOST-PID.
	Name string
	// Queues lists the queues to consume. Default "default". A worker that
	// gets a call of a tool that it lacks hands it to another worker of the queue. If
	// none offers the tool, the call fails as unknown.
	Queues []string
	// Spare lists those of the queues whose calls this worker takes only while no other worker
	// asks for them: queues of other zones (bus.ZoneQueue).
	Spare []string
	// Slots is the number of calls of each queue that run at once. Default 64.
	Slots int
	// Pool, if not nil, returns slots that the calls of a queue share with those of other workers
	// of this process, or nil: a call needs one of them in addition.
	Pool func(queue string) *consume.Pool
	// SessionSlots is how many calls of a session run at once, for each queue. A worker holds
	// the next ones, at most as many as it has slots, and runs those of other sessions. Default
	// 0: no limit.
	SessionSlots int
	// MaxAttempts is the number of attempts of a call before it becomes a dead
	// letter. If a worker dies before it starts a call that was delivered again, that
	// is not an attempt. For resumable calls, such as an agent's, only attempts
	// without progress count. Default 5.
	MaxAttempts int
	// Grace is how long running calls may continue after a stop. Default 20 s.
	Grace time.Duration
	// OwnServer says that the server runs in this process and that no other process used
	// its data directory since. The worker then knows which calls have lost their worker.
	OwnServer bool
	// Ticks makes the worker turn the ticks of schedules into calls.
	Ticks bool
	// AskTimeout is how long another worker may take to report that it runs a
	// call. If it is too short, a once-only call gets the outcome unknown while it
	// runs. Default 2 s.
	AskTimeout time.Duration
	// ClaimTimeout: if no worker reports running a claimed call for this long, its
	// outcome becomes unknown. It should be long enough for a worker to reconnect.
	// Default: the lease of the bus.
	ClaimTimeout time.Duration
	// State, if not nil, records the channel through which the user of a session
	// last sent a call.
	State state.Store
	// Reader reads the artifacts that calls pass as arguments. Without it, an argument
	// {"$artifact":"ID"} is not replaced.
	Reader *offload.Reader
	// Approvals says which calls a person must approve before they run.
	Approvals approvals.Rules
	// Log receives events of calls, without their arguments and content.
	Log zerolog.Logger
}

// Worker runs the calls of its queues. Any number of workers share the work.
type Worker struct {
	bus        *bus.Bus
	registry   *tools.Registry
	cfg        Config
	log        zerolog.Logger
	artifacts  *artifacts
	executions *executions
	records    *task.Follower
	locator    *task.Locator
	results    *results
	parking    *parking
	last       chan struct{} // has an element while a call has its last attempt
	step       func(string)  // called before each step of a call

	reconnected atomic.Pointer[time.Time] // when it lost the server last, and was connected again; or nil
}

// New returns a worker that is not running yet.
func New(b *bus.Bus, registry *tools.Registry, offloader Offloader, cfg Config) *Worker {
	cfg.Name = cmp.Or(cfg.Name, defaultName())
	if len(cfg.Queues) == 0 {
		cfg.Queues = []string{bus.DefaultQueue}
	}
	cfg.MaxAttempts = cmp.Or(max(cfg.MaxAttempts, 0), 5)
	cfg.AskTimeout = cmp.Or(max(cfg.AskTimeout, 0), task.AskTimeout)
	cfg.ClaimTimeout = cmp.Or(max(cfg.ClaimTimeout, 0), b.Config().Lease)
	w := &Worker{
		bus: b, registry: registry, cfg: cfg, log: cfg.Log, last: make(chan struct{}, 1),
		artifacts:  &artifacts{store: offloader, reader: cfg.Reader, bus: b, log: cfg.Log},
		executions: newExecutions(b, cfg.Name, cfg.Log),
	}
	w.records = task.NewFollower(b, task.FollowerConfig{
		Cancelled: w.executions.cancel, Expired: w.executions.forgetCancellation, Stop: w.executions.stop, Log: cfg.Log,
	})
	var drops retention.Drops // of the results stream
	w.locator = &task.Locator{
		Bus: b, Records: w.records, Results: task.NewResults(b, cfg.Log), Here: w.executions.endOf,
		CompleteSince: func(ctx context.Context) (time.Time, error) { return drops.CompleteSince(ctx, b) },
		AskTimeout:    cfg.AskTimeout, Process: nuid.Next(), OwnServer: cfg.OwnServer,
		OthersCame: func(ctx context.Context) (bool, error) { return admin.OthersAnnounced(ctx, b) },
	}
	w.results = &results{
		bus: b, artifacts: w.artifacts, locator: w.locator, worker: cfg.Name, source: []string{"/stevedore/worker/" + tools.Token(cfg.Name)},
		counters: newCounters(cfg.Queues), log: cfg.Log,
	}
	w.parking = &parking{bus: b, records: w.records, artifacts: w.artifacts, worker: cfg.Name, log: cfg.Log, gate: &approvals.Gate{
		Rules: cfg.Approvals, Bus: b, Log: cfg.Log, Expand: w.artifacts.Expand, Check: registry.Check,
	}}
	return w
}

func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// Run runs calls until ctx ends, and returns after the last call was settled. The
// streams must exist; Bus.Provision creates them.
func (w *Worker) Run(ctx context.Context) error {
	for _, queue := range w.cfg.Queues {
		if !tools.IsToken(queue) {
			return fmt.Errorf("queue %q is not of the form %s", queue, tools.TokenForm)
		}
	}
	w.step = tracing.Steps(ctx)
	w.results.step = w.step
	if err := w.takeOver(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	stopAnswering, err := w.answer(ctx)
	if err != nil {
		return err
	}
	defer stopAnswering()
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { close(w.executions.stopping) })()
	group.Go(func() error { w.noteReconnects(ctx); return nil })
	// It follows the records of calls until the last call was settled. No call starts before it knows
	// all of them, so that no cancelled one does.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	ready := make(chan struct{})
	group.Go(func() error {
		if err := w.records.Run(following, func() { close(ready) }); following.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error {
		defer stopFollowing()
		select {
		case <-ready:
		case <-ctx.Done():
		}
		return w.consume(ctx)
	})
	return group.Wait()
}

// returnTime is longer than other workers need to connect to a server that has restarted.
const returnTime = 15 * time.Second

// takeOver finds out whether the deliveries of an earlier process are certainly without a
// worker. It is called before this worker consumes or answers requests.
//
// With OwnServer, the server and the worker end together. So a call that was stored before
// this start can only have run in a dead process, unless another worker uses the server, or comes later. That
// one has announced itself, and may need a while until it is connected again and answers.
func (w *Worker) takeOver(ctx context.Context) error {
	if !w.cfg.OwnServer {
		return admin.Announce(ctx, w.bus, w.log)
	}
	others, err := admin.OthersAnnounced(ctx, w.bus)
	if others {
		w.locator.OthersBackBy = time.Now().Add(returnTime)
	} else if err == nil {
		w.locator.AloneAt = time.Now()
	}
	return err
}

// answer answers the requests of others: what this worker runs, and which tools it has.
func (w *Worker) answer(ctx context.Context) (stop func(), err error) {
	stopRunning, err := task.AnswerRunning(w.bus, w.log, w.executions.report)
	if err != nil {
		return nil, err
	}
	stopOffering, err := w.answerOffers(ctx)
	if err != nil {
		stopRunning()
		return nil, err
	}
	return func() { stopOffering(); stopRunning() }, nil
}

// consume runs the calls of the queues, and turns ticks into calls, until ctx ends.
func (w *Worker) consume(ctx context.Context) error {
	ticks := consume.Config{Slots: w.cfg.Slots, MaxAttempts: w.cfg.MaxAttempts, Grace: w.cfg.Grace}
	calls := ticks
	calls.ShouldRetry, calls.TakeAhead = w.shouldRetry, w.takeAhead
	calls.SessionSlots = w.cfg.SessionSlots
	ticks.AwaitUse = true
	group, ctx := errgroup.WithContext(ctx)
	start := func(c bus.Consumer, cfg consume.Config, report dead.Report, handler consume.Handler) {
		group.Go(func() error { return dead.Consume(ctx, w.bus, c, cfg, report, handler) })
	}
	if !w.cfg.OwnServer {
		group.Go(func() error { admin.KeepAnnounced(ctx, w.bus, w.log); return nil })
	}
	for _, queue := range w.cfg.Queues {
		if w.cfg.Pool != nil {
			calls.Pool = w.cfg.Pool(queue)
		}
		calls.Spare = slices.Contains(w.cfg.Spare, queue)
		start(w.bus.WorkerConsumer(queue), calls, w.answerDeadLetter, w.handle)
	}
	if w.cfg.Ticks {
		t := ticker{bus: w.bus, locator: w.locator, log: w.log}
		start(w.bus.TickConsumer(), ticks, nil, t.handle)
		group.Go(func() error { cron.New(w.bus).KeepTime(ctx, w.log); return nil })
	}
	w.log.Info().Str("worker", w.cfg.Name).Strs("queues", w.cfg.Queues).Msg("worker is consuming")
	return group.Wait()
}

// takeAhead records that this worker starts a call before the consumer of its queue delivers
// it, because the call's session has its turn. All workers follow the records.
func (w *Worker) takeAhead(ctx context.Context, subject string, sequence uint64) (bool, error) {
	c, ok := w.bus.SplitCall(subject)
	if !ok || !tools.IsToken(c.Session) || !tools.IsToken(c.ID) {
		return false, nil
	}
	return task.TakeAhead(ctx, w.bus, tools.CallKey{Session: c.Session, ID: c.ID}, sequence)
}
