package simulate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/approvals"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/notify"
	"github.com/stevedore-bus/stevedore/offload"
)

const (
	processes = 2
	// A client repeats a request for this long. No simulated outage is longer.
	patience = 30 * time.Minute
	// jobInterval is that of the simulated jobs. A job that did not run for jobPause has stopped:
	// the pause is longer than any outage with the waits after it.
	jobInterval = 30 * time.Second
	jobPause    = 10 * time.Minute
	// The end of each hour, calmTime, is without faults. Until recovery has passed, the faults before it still
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
	events []happening // what the seed decided, for a failure

	dir       string
	server    *atomic.Pointer[embedded.Server] // nil while none runs
	starts    []time.Time
	neighbour *simulation   // another tenant on the server
	host      *simulation   // of a neighbour: the installation that has the server
	hour      time.Duration // after which the parts of an hour begin again

	disks      *powered // the file system of dir, if its power can fail
	disk       storeFaults
	artifacts  string // the directory of the disk store, or "" for the object store
	linking    sync.Mutex
	links      []*link
	client     *bus.Bus // of all clients; its link is whole while the server runs
	messages   *notify.Notifier
	running    []*process
	healing    sync.WaitGroup // faults that end
	clients    sync.WaitGroup
	calls      int
	faults     int
	letters    int            // that were retried
	goroutines int            // of the idle installation, before the first fault
	chatSizes  map[string]int // messages with a number, by chat
	questions  map[string]int // to agents, by session
	sizes      sync.Map       // of the streams that were full
	mend       time.Time      // when a process starts after consumers were edited; zero if none was
	registers  []*register
	people     sync.WaitGroup // that approve calls and retry dead letters
	leaving    chan struct{}  // closed to end them
	// The garbage collector must not end a store while the bubble runs: its clean-up, outside of the
	// bubble, would wake goroutines of it.
	stores []offload.Store
}

// newSimulation returns an installation whose decisions are one of the streams of a seed.
func newSimulation(seed, stream uint64) *simulation {
	return &simulation{
		hour: time.Hour, rnd: rand.New(rand.NewPCG(seed, stream)), ledger: newLedger(),
		server: new(atomic.Pointer[embedded.Server]), chatSizes: map[string]int{},
	}
}

// clock is the simulated time of a line in the log.
func clock() string { return time.Now().Format("15:04:05.000") }

// happening is a fault.
type happening struct {
	at   time.Time
	what string
}

func (h happening) String() string { return h.at.Format("15:04:05.000") + " " + h.what }

func (s *simulation) note(format string, a ...any) {
	if s.host != nil {
		s.host.note(format+" ("+s.ledger.tenant+")", a...)
		return
	}
	s.events = append(s.events, happening{time.Now(), fmt.Sprintf(format, a...)})
}

// run simulates for a time, heals everything, and waits until nothing is left to do.
func (s *simulation) run(d time.Duration) {
	s.startServer()
	s.begin(processes)
	s.neighbour = newNeighbour(s)
	s.neighbour.begin(1)
	time.Sleep(time.Minute)
	s.goroutines = runtime.NumGoroutine()
	s.addJobs()
	for hour := s.hour; ; hour += s.hour {
		s.poison()
		s.load(s.began.Add(min(hour-calmTime, d)), true)
		for _, of := range []*simulation{s, s.neighbour} {
			of.healing.Wait()
			of.mendConsumers(true)
		}
		s.load(time.Now().Add(recovery), false)
		if hour-calmTime >= d {
			break
		}
		from := time.Now()
		s.flood()
		s.load(s.began.Add(min(hour, d)), false)
		s.ledger.calms = append(s.ledger.calms, span{from, time.Now()})
		if hour >= d {
			break
		}
	}
	s.clients.Wait()
	s.neighbour.clients.Wait()
	s.neighbour.settle()
	s.settle()
}

// begin starts the processes of the installation, its client, and the people who work with it.
func (s *simulation) begin(processes int) {
	// The server takes the time of a bubble for its messages and the real one for their age.
	const forever = 100 * 365 * 24 * time.Hour
	cfg := bus.Config{Prefix: s.ledger.tenant, MaxBytes: 128 << 20, ResultsTTL: forever}
	s.client = bustest.Connect(s.t, s.server.Load(), cfg) // provisions
	s.edit(s.stream(bus.Dead), func(info *jetstream.StreamInfo) { info.Config.MaxAge = forever })
	s.client.Close()
	s.client = s.connect(s.newLink())
	var err error
	if s.messages, err = notify.New(s.client, notify.Config{Default: "chat"}); err != nil {
		s.t.Fatal(err)
	}
	for range processes {
		s.running = append(s.running, startProcess(s.t, s))
	}
	s.leaving, s.questions = make(chan struct{}), map[string]int{}
	s.people.Go(s.approve)
	s.people.Go(s.retryLetters)
}

// settle waits until no stream has work left, and no accepted call is parked. The judges name what is left after an hour.
func (s *simulation) settle() {
	wait := func() {
		for deadline := time.Now().Add(time.Hour); time.Now().Before(deadline); time.Sleep(5 * time.Second) {
			waiting, err := approvals.List(s.t.Context(), s.client, "*")
			if err == nil && len(waiting)+bustest.Waiting(s.t, s.client)+bustest.Messages(s.t, s.client, bus.Outbox)+bustest.Messages(s.t, s.client, bus.Dead) == 0 &&
				s.haveAllResults() {
				break
			}
		}
	}
	wait()
	time.Sleep(jobPause)
	time.Sleep(jobInterval / 6) // otherwise the judge can read in the moment in which the jobs begin
	wait()
}

// haveAllResults reports whether each accepted call has a result: a run that waits for its provider is in no stream.
func (s *simulation) haveAllResults() bool {
	results, err := s.records(s.t.Context())
	if err != nil {
		return false
	}
	s.ledger.mu.Lock()
	accepted := slices.Collect(maps.Values(s.ledger.accepted))
	s.ledger.mu.Unlock()
	for _, p := range accepted {
		if _, ok := read(s.t.Context(), results, "result", p); !ok {
			return false
		}
	}
	return true
}

// close ends everything, so that the bubble can end.
func (s *simulation) close() {
	s.neighbour.end()
	s.end()
	s.server.Load().Close()
}

// end ends the processes, the client and the people.
func (s *simulation) end() {
	close(s.leaving)
	s.people.Wait()
	for _, p := range s.running {
		p.stop()
		p.bus.Close()
	}
	s.client.Close()
}

func (s *simulation) startServer() {
	// Both tenants reserve more than the share of the disk that a server takes by default.
	srv, err := embedded.Start(embedded.Config{Dir: s.dir, NoSync: s.disks == nil, MaxStore: 1 << 40, Log: bustest.Log(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.server.Store(srv)
	s.starts = append(s.starts, time.Now())
}

func (s *simulation) newLink() *link {
	if s.host != nil {
		return s.host.newLink()
	}
	l := newLink(s.server.Load)
	s.linking.Lock()
	defer s.linking.Unlock()
	s.links = append(s.links, l)
	return l
}

// connect returns a connection over a link. It waits until a server runs.
func (s *simulation) connect(l *link) *bus.Bus {
	for {
		if srv := s.server.Load(); srv != nil {
			cfg := srv.ClientConfig(bus.Config{Prefix: s.ledger.tenant, Log: bustest.Log(s.t)})
			cfg.InProcess = l
			b, err := bus.Connect(s.t.Context(), cfg)
			if err == nil {
				return b
			}
			cfg.Log.Warn().Err(err).Msg("cannot connect")
		}
		time.Sleep(time.Second)
	}
}
