package cron

import (
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/bus/consume"
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

// ParseCallID returns the name of the schedule whose tick became the call, or the run of an
// agent that made the call. ok is false if the id is not from CallID.
func ParseCallID(id string) (name string, ok bool) {
	match := callID.FindStringSubmatch(id)
	if match == nil {
		return "", false
	}
	return match[1], true
}
