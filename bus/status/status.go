// Package status reads the state of an installation from the bus: streams, queues,
// workers, channels, dead letters.
//
// The API that is kept stable does not contain this package; see docs/api.md.
package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/tools/trouble"
)

// Status is the state of an installation at a time.
type Status struct {
	At       time.Time `json:"at"`
	Server   Server    `json:"server"`
	Streams  []Stream  `json:"streams"`
	Queues   []Queue   `json:"queues"`
	Workers  []Worker  `json:"workers"`
	Channels []Channel `json:"channels"`
	// DeadLetters is the number of dead letters.
	DeadLetters uint64 `json:"dead_letters"`
	// Problems are what needs attention. Errors say what could not be read, and Notes what was not.
	Problems []Problem `json:"problems"`
	Errors   []string  `json:"errors,omitempty"`
	Notes    []string  `json:"notes,omitempty"`

	skew     time.Duration  // how far the clock of a server is certainly ahead of this host's
	outages  map[string]int // runs that wait for a model, by the error of its provider
	asking   int            // calls that wait for an approval
	damaged  []string       // records of calls that cannot be read, with their bucket
	paused   []string       // streams with their consumers
	altered  []string       // streams with their consumers that deliver other subjects
	missing  []string       // streams
	headless []string       // streams of a cluster without a leader
	offline  []string       // servers of the cluster that hold replicas
	failing  []cron.Entry   // jobs and heartbeats whose last run failed
	ticks    uint64         // those that wait while no worker asks for one
	unsent   uint64         // reports and notifications that wait while no notifier runs
	noQuorum bool           // the servers of the cluster that are left cannot elect a leader
}

// Report is what a worker says of itself: the data of its endpoint "call".
type Report struct {
	worker.Stats
	// Failures are what its process tries again and again.
	Failures []trouble.Failure `json:"failures,omitempty"`
	// Store is the SPEC of its artifact store. Workers of one store have the same StoreID.
	Store   string `json:"store,omitempty"`
	StoreID string `json:"store_id,omitempty"`
}

// Server is the NATS server that this process is connected to.
type Server struct {
	URL     string  `json:"url"` // without credentials
	Version string  `json:"version"`
	Name    string  `json:"name"`
	Cluster string  `json:"cluster,omitempty"`
	RTTms   float64 `json:"rtt_ms"`
}

// Stream is a stream or the stream of a bucket.
type Stream struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	// MaxBytes is -1 if the size is not limited. Fill is Bytes/MaxBytes, 0 if it is not
	// limited.
	MaxBytes int64   `json:"max_bytes"`
	Fill     float64 `json:"fill"`
	// Oldest is the time of the oldest message; MaxAgeS is 0 if the age is not limited.
	Oldest   time.Time `json:"oldest,omitzero"`
	MaxAgeS  float64   `json:"max_age_s"`
	Replicas int       `json:"replicas"`
	Leader   string    `json:"leader,omitempty"`
	// Full says which of the messages go if the stream is full: "rejects new" or
	// "drops old".
	Full string `json:"full"`

	fill    bus.Fill
	expires bool // it keeps a message for as long as its sender says
}

// Worker is a process that runs calls.
type Worker struct {
	Name    string           `json:"name"`
	Version string           `json:"version"`
	Started time.Time        `json:"started"`
	Queues  []string         `json:"queues"`
	Running int              `json:"running"`
	Ended   map[string]int64 `json:"ended"` // calls since the start, by outcome
	// Models are the names of the models of its agents, the default one first.
	Models []string `json:"models,omitempty"`

	store, storeID string
	running        map[string]int // calls by queue
	failures       []trouble.Failure
	channels       map[string]string // kinds by name
	defaultChannel string
}

// Channel is a channel to a user.
type Channel struct {
	Name string `json:"name"`
	// Kind is such as "file" or "telegram", and Default is true if notifications that name
	// no channel go there. The workers that send the notifications report both; Kind is
	// empty if none answers.
	Kind    string `json:"kind,omitempty"`
	Default bool   `json:"default,omitempty"`
	// Waiting notifications were not sent yet. Sending ones are on their way, or wait for
	// the next attempt.
	Waiting uint64 `json:"waiting"`
	Sending int    `json:"sending"`
	// Served is false if no process sends the notifications now, of a bridge if its program takes none.
	// Sending ones are then those of a process that died.
	Served bool `json:"served"`

	lately  bool // a process took a notification during the last takesWithin
	repeats bool // notifications came repeatedly, and none was acknowledged during the last takesWithin
}

// Read reads the state. It takes half of the timeout of the bus if workers do not answer, and less than
// all of it if the servers do not answer either. What cannot be read is missing and
// named in Errors.
func Read(ctx context.Context, b *bus.Bus) Status {
	ctx, cancel := context.WithTimeout(ctx, b.Config().Timeout*3/5)
	defer cancel()
	s := Status{At: time.Now().UTC(), Streams: []Stream{}, Queues: []Queue{}, Workers: []Worker{}, Channels: []Channel{}, Problems: []Problem{}}
	s.Server = server(b)
	queues := map[string]*Queue{}
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		failed = map[string]error{} // by what could not be read
	)
	check := func(c bus.Consumer, info *jetstream.ConsumerInfo) {
		mu.Lock()
		defer mu.Unlock()
		if name := b.StreamName(c.Stream) + " " + info.Name; info.Paused {
			s.paused = append(s.paused, name)
		} else if info.Name != "" && !c.DeliversAll(info.Config) {
			s.altered = append(s.altered, name)
		}
	}
	for what, read := range map[string]func() error{
		"streams":      func() error { return s.readStreams(ctx, b) },
		"queues":       func() error { return readQueues(ctx, b, queues, check) },
		"consumers":    func() (err error) { s.ticks, s.unsent, err = readConsumers(ctx, b, check); return err },
		"workers":      func() (err error) { s.Workers, err = workers(ctx, b); return err },
		"channels":     func() (err error) { s.Channels, err = channels(ctx, b, check); return err },
		"parked calls": func() error { return s.readParked(ctx, b) },
		"dead letters": func() (err error) { s.DeadLetters, err = dead.Count(ctx, b); return err },
		"jobs":         func() error { return s.readJobs(ctx, b) },
	} {
		group.Go(func() {
			if err := read(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[what] = err
			}
		})
	}
	group.Wait()
	for what, err := range failed {
		if !s.explains(err) {
			s.Errors = append(s.Errors, fmt.Sprintf("%s: %v", what, Refused(b, err)))
		}
	}
	for _, w := range s.Workers {
		for _, name := range w.Queues {
			if queues[name] == nil {
				queues[name] = &Queue{Name: name}
			}
			queues[name].Workers++
			queues[name].Running += w.running[name]
		}
		for i, c := range s.Channels {
			s.Channels[i].Default = c.Default || w.defaultChannel == c.Name
			if kind := w.channels[c.Name]; kind != "" {
				s.Channels[i].Kind = kind
				s.Channels[i].Served = c.Served || c.lately || kind != bridge
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		s.Queues = append(s.Queues, *queues[name])
	}
	s.noteSilent(ctx, b)
	slices.Sort(s.Errors)
	s.Problems = s.problems()
	return s
}

// Refused returns the error of an operation, as one of a permission if the server gave no answer and has refused this user
// something: it does not answer what it refuses.
func Refused(b *bus.Bus, err error) error {
	denied := b.Denied()
	if len(denied) == 0 || !bus.IsOutage(err) {
		return err
	}
	return fmt.Errorf("%v: %w: this user may not %s", err, nats.ErrPermissionViolation, strings.Join(denied, ", "))
}

func (s *Status) readJobs(ctx context.Context, b *bus.Bus) (err error) {
	var more bool
	if s.failing, more, err = cron.New(b).Failing(ctx); more {
		s.Notes = append(s.Notes, fmt.Sprintf("Of the jobs, only the %d that ran last were looked at.", cron.FailingSchedules))
	}
	return err
}

// workers asks all workers for their statistics.
func workers(ctx context.Context, b *bus.Bus) ([]Worker, error) {
	subject, err := micro.ControlSubject(micro.StatsVerb, rpc.ServiceName, "")
	if err != nil {
		return nil, err
	}
	found := []Worker{}
	// Read has less time than task.FirstAnswer takes.
	answers, err := task.Collect[micro.Stats](ctx, b.Conn(), subject, nil, b.Config().Timeout/2)
	if errors.Is(err, task.ErrSilent) { // the problem NoWorker says so
		err = nil
	}
	for _, stats := range answers {
		found = append(found, workerOf(stats))
	}
	sort.Slice(found, func(i, j int) bool {
		a, b := &found[i], &found[j]
		return cmp.Or(strings.Compare(a.Name, b.Name), a.Started.Compare(b.Started)) < 0
	})
	return found, err
}

func workerOf(stats micro.Stats) Worker {
	w := Worker{
		Name: stats.Metadata["worker"], Version: stats.Version, Started: stats.Started, Queues: []string{}, Ended: map[string]int64{},
		running: map[string]int{}, channels: map[string]string{}, defaultChannel: stats.Metadata["default_channel"],
	}
	_ = json.Unmarshal([]byte(stats.Metadata["models"]), &w.Models) // without agents, there are none
	for channel := range strings.SplitSeq(stats.Metadata["channels"], ",") {
		if name, kind, ok := strings.Cut(channel, "="); ok {
			w.channels[name] = kind
		}
	}
	for _, endpoint := range stats.Endpoints {
		var data Report
		if json.Unmarshal(endpoint.Data, &data) != nil || data.Worker == "" {
			continue
		}
		w.failures, w.store, w.storeID = data.Failures, data.Store, data.StoreID
		for _, name := range slices.Sorted(maps.Keys(data.Queues)) {
			q := data.Queues[name]
			w.Queues = append(w.Queues, name)
			w.Running += q.Running
			w.running[name] = q.Running
			for outcome, n := range q.Outcomes {
				w.Ended[string(outcome)] += n
			}
		}
	}
	return w
}
