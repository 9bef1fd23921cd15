package cron

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/consume"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/lazyregexp"
)

// RunRecord is the record of a schedule's last call. The worker stores it before it
// publishes the call: after a crash in between, the redelivery of the tick or the
// next tick publishes the call.
type RunRecord struct {
	Call     string    `json:"call"`
	Session  string    `json:"session"`
	Due      time.Time `json:"slot"`
	Deadline time.Time `json:"deadline"`
	// Tick is the sequence of the tick in its stream. It orders runs even if the
	// clock jumps.
	Tick uint64 `json:"tick,omitempty"`
	// Restarted is set if no stream had the call, and a later tick published it.
	Restarted bool `json:"restarted,omitempty"`
}

// Gone says how a run without a result is: ended if its result was dropped, lost if no stream has its call, and neither
// if it goes on. completeSince is that of retention.Drops.
func (r RunRecord) Gone(ctx context.Context, b *bus.Bus, completeSince func(context.Context) (time.Time, error)) (ended, lost bool, err error) {
	if lost, err = task.IsLost(ctx, b, r.Key()); err != nil || !lost {
		return false, false, err
	}
	since, err := completeSince(ctx)
	ended = r.Due.Before(since)
	return ended, !ended, err
}

// Key names the call of the run.
func (r RunRecord) Key() tools.CallKey {
	call := tools.Call{ID: r.Call, Session: r.Session}
	return tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()}
}

// CallID returns the id of the call of a tick of a schedule with a name, which is the same for each copy of the
// tick, and its due time. A tick that a client published is due when it was published.
func CallID(d *consume.Delivery, kind, name string) (id string, due time.Time) {
	due, ok := DueTime(d)
	if !ok {
		due = d.Published.UTC()
	}
	id = fmt.Sprintf("%s-%s-%s", kind, name, strings.Replace(due.Format("20060102T150405.999999999Z"), ".", "", 1))
	if !ok {
		id = fmt.Sprintf("%s-%d", id, d.Sequence)
	}
	return id, due
}

var callID = lazyregexp.New(`^(?:heartbeat|cron)-([A-Za-z0-9_-]{1,64})-\d{8}T\d+Z(?:-\d+)?(?:-t\d+-\d+)*$`)

// ParseCallID returns the name of the job or heartbeat whose tick became the call, or the run of
// an agent that made the call. ok is false if the id is not from CallID.
func ParseCallID(id string) (name string, ok bool) {
	match := callID.FindStringSubmatch(id)
	if match == nil {
		return "", false
	}
	return match[1], true
}
