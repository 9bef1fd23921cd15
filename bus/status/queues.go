package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// Queue is a queue of calls.
type Queue struct {
	Name string `json:"name"`
	// Waiting calls were delivered to no worker. Taken calls were, and have no result.
	Waiting uint64 `json:"waiting"`
	Taken   int    `json:"taken"`
	// First are the sessions of the first waitingSample calls that wait, the one with most
	// calls first.
	First []Backlog `json:"first,omitempty"`
	// Running is the number of calls that the workers report, Workers their number.
	Running int `json:"running"`
	Workers int `json:"workers"`
	// Pulling is the number of requests for calls. It is above 0 if a worker has free
	// slots, also one that is not a Stevedore worker.
	Pulling int `json:"pulling"`
	// Paused is set if somebody paused the consumer: no worker gets calls.
	Paused bool `json:"paused,omitempty"`
}

// Backlog is how many of the first calls that wait belong to a session.
type Backlog struct {
	Session string `json:"session"`
	Calls   int    `json:"calls"`
}

// readQueues reads the queues with a consumer, and those whose calls wait without one.
func readQueues(ctx context.Context, b *bus.Bus, queues map[string]*Queue, check checkConsumer) error {
	found, err := Queues(ctx, b)
	for name, info := range found {
		queues[name] = &Queue{Name: name, Waiting: info.NumPending, Taken: max(info.NumAckPending, 0), Pulling: info.NumWaiting, Paused: info.Paused}
		check(b.WorkerConsumer(name), info)
		if info.NumPending > 0 {
			queues[name].First = firstWaiting(ctx, b, name)
		}
	}
	return err
}

// noteSilent notes the calls that a worker has taken and that no worker names as running. It looks twice: the server
// settles a call a moment after its result is stored. A queue without workers is a problem, and needs no note.
func (s *Status) noteSilent(ctx context.Context, b *bus.Bus) {
	isSuspect := func(q Queue) bool { return q.Workers > 0 && q.Taken > q.Running }
	if !slices.ContainsFunc(s.Queues, isSuspect) || tools.Sleep(ctx, time.Second) != nil {
		return
	}
	found, _ := Queues(ctx, b) // the first look has named its errors
	for _, q := range s.Queues {
		info := found[q.Name]
		if info == nil || !isSuspect(q) {
			continue
		}
		if silent := min(q.Taken, info.NumAckPending) - q.Running; silent > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("Calls of the queue %q that a worker has, and that no worker names as running: %d. "+
				"If their worker died, another one gets them within %s.", q.Name, silent, info.Config.AckWait))
		}
	}
}

// waitingSample is how many waiting calls of a queue a status looks at.
const waitingSample = 200

// firstWaiting returns the sessions of the first calls that wait in a queue, or none if the user
// may not read calls.
func firstWaiting(ctx context.Context, b *bus.Bus, queue string) (sessions []Backlog) {
	calls, err := task.ListWaiting(ctx, b, queue, waitingSample)
	if err != nil {
		return nil
	}
	count := map[string]int{}
	for _, c := range calls {
		count[c.Session]++
	}
	for session, n := range count {
		sessions = append(sessions, Backlog{session, n})
	}
	slices.SortFunc(sessions, func(a, b Backlog) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Session, b.Session))
	})
	return sessions
}

// readParked counts the runs that wait for a model, by the last error of its provider, and the calls that
// wait for an approval.
func (s *Status) readParked(ctx context.Context, b *bus.Bus) error {
	s.outages = map[string]int{}
	return task.ListRecords(ctx, b, "*", func(r task.Record) {
		switch {
		case r.Damaged != nil:
			s.damaged = append(s.damaged, b.BucketName(bus.TasksBucket)+" "+r.EntryKey())
		case r.Asks():
			s.asking++
		case r.Parked != nil && r.Parked.Reason == tools.WaitingForModel:
			s.outages[r.Parked.Detail]++
		}
	})
}
