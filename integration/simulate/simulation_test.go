package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/bus/notify/channel"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	processes = 2
	// A client repeats a request for this long. No simulated outage is longer.
	patience = 30 * time.Minute
	// jobInterval is that of the simulated jobs. A job that did not run for jobPause has stopped:
	// the pause is longer than any outage with the waits after it.
	jobInterval = 30 * time.Second
	jobPause    = 10 * time.Minute
	// Of each hour, calmTime is without faults. Until recovery has passed, the faults before it still
	// have effects.
	calmTime = 15 * time.Minute
	recovery = 5 * time.Minute
)

// simulation is an installation in a bubble.
type simulation struct {
	t      *testing.T
	rnd    *rand.Rand
	ledger *ledger
	began  time.Time
	events []string // what the seed decided, for a failure

	dir    string
	server atomic.Pointer[embedded.Server] // nil while none runs

	links      []*link
	client     *bus.Bus // of all clients; its link is whole while the server runs
	messages   *notify.Notifier
	running    []*process
	healing    sync.WaitGroup // faults that end
	clients    sync.WaitGroup
	calls      int
	faults     int
	goroutines int            // of the idle installation, before the first fault
	chatSizes  map[string]int // messages with a number, by chat
	questions  map[string]int // to agents, by session
	sizes      sync.Map       // of the streams that were full
	registers  []*register
	approving  sync.WaitGroup
	approved   chan struct{} // closed to end the approvals
	// The garbage collector must not end a store while the bubble runs: its clean-up, outside of the
	// bubble, would wake goroutines of it.
	stores []offload.Store
}

// clock is the simulated time of a line in the log.
func clock() string { return time.Now().Format("15:04:05.000") }

func (s *simulation) note(format string, a ...any) {
	s.events = append(s.events, clock()+" "+fmt.Sprintf(format, a...))
}

// run simulates for a time, heals everything, and waits until nothing is left to do.
func (s *simulation) run(d time.Duration) {
	s.startServer()
	// The server takes the time of a bubble for its messages and the real one for their age.
	s.client = bustest.Connect(s.t, s.server.Load(), bus.Config{ResultsTTL: 100 * 365 * 24 * time.Hour}) // provisions
	s.client.Close()
	s.client = s.connect(s.newLink())
	var err error
	if s.messages, err = notify.New(s.client, notify.Config{Default: "chat"}); err != nil {
		s.t.Fatal(err)
	}
	for range processes {
		s.running = append(s.running, startProcess(s.t, s))
	}
	time.Sleep(time.Minute)
	s.goroutines = runtime.NumGoroutine()
	s.addJobs()
	s.approved, s.questions = make(chan struct{}), map[string]int{}
	s.approving.Go(func() { s.approve(s.approved) })
	for hour := time.Hour; hour <= d; hour += time.Hour {
		s.load(s.began.Add(hour-calmTime), true)
		s.healing.Wait()
		s.load(time.Now().Add(recovery), false)
		from := time.Now()
		s.load(s.began.Add(hour), false)
		s.ledger.calms = append(s.ledger.calms, calm{from, time.Now()})
	}
	s.clients.Wait()
	s.settle()
}

// load lets clients work until a time, and some parts fail meanwhile.
func (s *simulation) load(until time.Time, faults bool) {
	for time.Now().Before(until) {
		time.Sleep(time.Duration(s.rnd.IntN(20_000)) * time.Millisecond)
		if !faults || s.rnd.IntN(10) < 8 {
			for range 1 + s.rnd.IntN(6) {
				s.submit()
			}
		} else {
			s.breakSomething()
		}
	}
}

// settle waits until no stream has work left. The judges name what is left after an hour.
func (s *simulation) settle() {
	wait := func() {
		for deadline := time.Now().Add(time.Hour); time.Now().Before(deadline); time.Sleep(5 * time.Second) {
			waiting, err := approvals.List(s.t.Context(), s.client, "*")
			if err == nil && len(waiting)+bustest.Waiting(s.t, s.client)+bustest.Messages(s.t, s.client, bus.Outbox) == 0 {
				break
			}
		}
	}
	wait()
	time.Sleep(jobPause)
	time.Sleep(jobInterval / 6) // otherwise the judge can read in the moment in which the jobs begin
	wait()
}

// close ends everything, so that the bubble can end.
func (s *simulation) close() {
	close(s.approved)
	s.approving.Wait()
	for _, p := range s.running {
		p.stop()
		p.bus.Close()
	}
	s.client.Close()
	s.server.Load().Close()
}

func (s *simulation) startServer() {
	srv, err := embedded.Start(embedded.Config{Dir: s.dir, NoSync: true, Log: bustest.Log(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.server.Store(srv)
}

func (s *simulation) newLink() *link {
	l := newLink(s.server.Load)
	s.links = append(s.links, l)
	return l
}

// connect returns a connection over a link. It waits until a server runs.
func (s *simulation) connect(l *link) *bus.Bus {
	for {
		if srv := s.server.Load(); srv != nil {
			cfg := srv.ClientConfig(bus.Config{Log: bustest.Log(s.t)})
			cfg.InProcess = l
			b, err := bus.Connect(s.t.Context(), cfg)
			if err == nil {
				return b
			}
			s.t.Logf("%s cannot connect: %v", clock(), err)
		}
		time.Sleep(time.Second)
	}
}

// openStore opens the object store of the installation.
func (s *simulation) openStore(b *bus.Bus) offload.Store {
	for {
		store, err := object.Open(s.t.Context(), b.JetStream(), object.Config{Bucket: b.BucketName(bus.BlobsBucket), Records: b.BucketName(bus.ArtifactsBucket)})
		if err == nil {
			s.stores = append(s.stores, store)
			return store
		}
		time.Sleep(time.Second)
	}
}

// insist lets a client repeat a request until it is answered.
func (s *simulation) insist(request func(context.Context) error) {
	s.clients.Go(func() { s.retry(request) })
}

func (s *simulation) retry(request func(context.Context) error) {
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err = request(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	s.t.Errorf("%s a client got no answer within %v: %v", clock(), patience, err)
}

// jobs are the schedules, with the tool of each and how long it runs. The last one runs for longer
// than its interval.
var jobs = map[string]struct {
	tool string
	ms   int
}{"job-1": {"once", 20}, "job-2": {"once", 20}, "job-3": {"idempotent", 20}, "job-4": {"keyed", 45_000}}

func (s *simulation) addJobs() {
	for name, job := range jobs {
		in, err := json.Marshal(args{MS: job.ms, Job: name})
		if err == nil {
			_, err = cron.New(s.client).Add(s.t.Context(), cron.Caller{Operator: true}, cron.Job{Name: name, Session: "jobs", Every: jobInterval, Tool: job.tool, Args: in})
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// makeJob lets a client make a job, change it, and remove it. The job runs meanwhile, and never afterwards.
func (s *simulation) makeJob() {
	name := fmt.Sprintf("made-%d", s.calls)
	in, err := json.Marshal(args{MS: 20, Job: name})
	if err != nil {
		s.t.Fatal(err)
	}
	job := cron.Job{Name: name, Session: "made", Every: jobInterval, Tool: "idempotent", Args: in}
	pauses := []time.Duration{time.Duration(s.rnd.IntN(90)) * time.Second, time.Duration(s.rnd.IntN(90)) * time.Second}
	s.clients.Go(func() {
		for _, pause := range pauses {
			s.retry(func(ctx context.Context) error { _, err := cron.New(s.client).Put(ctx, job, true); return err })
			job.Every += 10 * time.Second
			time.Sleep(pause)
		}
		s.retry(func(ctx context.Context) error {
			if err := cron.New(s.client).Remove(ctx, cron.Caller{Operator: true}, name); !errors.Is(err, cron.ErrNotFound) { // an earlier try may have removed it
				return err
			}
			return nil
		})
		s.ledger.removeJob(name)
	})
}

// submit lets a client do one of the things that clients do.
func (s *simulation) submit() {
	s.calls++
	in := args{MS: s.rnd.IntN(50)}
	if s.rnd.IntN(3) == 0 {
		in.MS = s.rnd.IntN(45_000)
	}
	if s.rnd.IntN(40) == 0 { // longer than several leases
		in.MS += s.rnd.IntN(300_000)
	}
	p := &promise{
		session: fmt.Sprintf("s%d", s.rnd.IntN(4)), id: fmt.Sprintf("c%d", s.calls),
		tool: []string{"once", "keyed", "idempotent", "async"}[s.rnd.IntN(4)], chat: fmt.Sprintf("chat%d", s.rnd.IntN(3)),
	}
	if s.rnd.IntN(8) == 0 {
		p.size = 60_000 + s.rnd.IntN(300_000)
	}
	if s.rnd.IntN(2) == 0 {
		p.user = "for the user: " + p.id
	}
	in.Size, in.User, p.ms = p.size, p.user, in.MS
	body, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	call := tools.Call{ID: p.id, Session: p.session, Tool: p.tool, Args: body, Channel: "chat", ChatID: p.chat}
	switch s.rnd.IntN(11) {
	case 0:
		if s.message(p.chat); s.rnd.IntN(4) == 0 {
			s.makeJob()
		}
	case 2:
		s.ask()
	case 1:
		p.raw = true
		text := output(p.id, p.size)
		raw := tools.RawEvent{Call: call, ForLLM: &text, UserContent: tools.UserContent{ForUser: p.user}, Silent: p.user == ""}
		raw.Args = nil
		s.insist(func(ctx context.Context) error {
			_, err := rpc.SubmitRaw(ctx, s.client, bus.DefaultQueue, raw)
			if err == nil {
				s.ledger.accept(p)
			}
			return err
		})
	default:
		p.cancelled = s.rnd.IntN(12) == 0
		pause := time.Duration(s.rnd.IntN(20_000)) * time.Millisecond
		s.insist(func(ctx context.Context) error {
			_, err := rpc.Enqueue(ctx, s.client, bus.DefaultQueue, call)
			if err != nil {
				return err
			}
			s.ledger.accept(p)
			if p.cancelled {
				time.Sleep(pause)
				_, _ = task.Cancel(ctx, s.client, p.session, p.id, "the client") // the call may have ended, or the server may be away
			}
			return nil
		})
	}
}

// message sends the next message with a number to a chat, once the one before it is stored.
func (s *simulation) message(chat string) {
	s.chatSizes[chat]++
	n := s.chatSizes[chat]
	s.insist(func(ctx context.Context) error {
		s.ledger.mu.Lock()
		ready := n == 1 || s.ledger.told[chat][n-1]
		s.ledger.mu.Unlock()
		if !ready {
			return errDown
		}
		_, err := s.messages.Send(ctx, channel.Notification{ID: fmt.Sprintf("%s-%d", chat, n), Channel: "chat", ChatID: chat, Text: fmt.Sprintf("message %d", n)})
		if err == nil {
			s.ledger.tell(chat, n)
		}
		return err
	})
}

// breakSomething lets one thing fail.
func (s *simulation) breakSomething() {
	s.faults++
	i := s.rnd.IntN(len(s.running))
	p := s.running[i]
	outage := time.Duration(s.rnd.IntN(100)) * time.Second
	writes := s.rnd.IntN(30) // between two steps of what the process does
	switch fault := s.rnd.IntN(11); fault {
	case 0, 1, 2, 3:
		state := []linkState{down, silent, deaf, mute}[fault]
		s.note("link of process %d: state %d after %d writes, for %v", i, state, writes, outage)
		p.link.setAfter(writes, state)
		s.healing.Go(func() { time.Sleep(outage); p.link.set(whole) })
		s.contend()
	case 4, 5:
		s.note("process %d dies after %d writes", i, writes)
		p.link.setAfter(writes, finished)
		s.healing.Go(func() { time.Sleep(outage); p.link.set(finished); p.stop(); p.bus.Close() })
		s.running[i] = startProcess(s.t, s)
	case 6:
		s.note("server restarts after %v", outage/2)
		s.unplug().Close()
		time.Sleep(outage / 2)
		s.startServer()
	case 7:
		s.fillStream([]string{bus.Calls, bus.Results, bus.Outbox, bus.Sessions}[s.rnd.IntN(4)], outage)
	case 8:
		s.stopProcess(i)
	default:
		s.note("server is killed, and starts after %v", outage/2)
		s.killServer()
		time.Sleep(outage / 2)
		s.startServer()
	}
}

// fillStream lets a stream accept no more than it has. Half of the time, a process stops meanwhile, with what it could
// not store.
func (s *simulation) fillStream(name string, outage time.Duration) {
	s.note("stream %s is full for %v", name, outage)
	limit := func(size func(jetstream.StreamInfo) int64) {
		s.retry(func(ctx context.Context) error {
			stream, err := s.client.JetStream().Stream(ctx, s.client.StreamName(name))
			if err != nil {
				return err
			}
			info := *stream.CachedInfo()
			info.Config.MaxBytes = size(info)
			_, err = s.client.JetStream().UpdateStream(ctx, info.Config)
			return err
		})
	}
	s.healing.Go(func() {
		limit(func(info jetstream.StreamInfo) int64 {
			s.sizes.LoadOrStore(name, info.Config.MaxBytes) // another outage may have made it full before
			return max(int64(info.State.Bytes), 1)
		})
		time.Sleep(outage)
		limit(func(jetstream.StreamInfo) int64 { size, _ := s.sizes.Load(name); return size.(int64) })
	})
	if s.rnd.IntN(2) == 0 {
		time.Sleep(outage / 2)
		s.stopProcess(s.rnd.IntN(len(s.running)))
	}
}

// stopProcess stops a process as a supervisor does, and starts another one.
func (s *simulation) stopProcess(i int) {
	s.note("process %d stops", i)
	p := s.running[i]
	p.stop()
	p.bus.Close()
	s.running[i] = startProcess(s.t, s)
}

// unplug disconnects everybody from the server. The server stops only then: it sleeps under a lock
// if it must tell clients of its end, and virtual time stands still if another request wants the lock.
func (s *simulation) unplug() *embedded.Server {
	srv := s.server.Swap(nil)
	for _, l := range s.links {
		l.disconnect()
	}
	time.Sleep(time.Millisecond)
	synctest.Wait()
	return srv
}

// killServer goes on with the files as they are now. What the server does afterwards is lost.
func (s *simulation) killServer() {
	srv := s.unplug()
	old := s.dir
	s.dir = dataDir(s.t)
	if err := os.CopyFS(s.dir, os.DirFS(old)); err != nil {
		s.t.Fatal(err)
	}
	srv.Close()
	if err := os.RemoveAll(old); err != nil {
		s.t.Fatal(err)
	}
}
