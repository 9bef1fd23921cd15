package cron

import (
	"encoding/json"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// Entry is a job as the server stores it.
type Entry struct {
	Job
	// ChangedAt is the time of the last change.
	ChangedAt time.Time `json:"changed_at,omitzero"`
	// Next is the next due time; zero if there is none.
	Next time.Time `json:"next,omitzero"`
	// Ended means that the time of a job that runs once has passed. Get returns an ended job for a
	// month; List until a worker takes its tick, and for a day after it has failed.
	Ended bool `json:"ended,omitempty"`
	// Unchanged: the update that returned the entry changed nothing.
	Unchanged bool `json:"unchanged,omitempty"`
	// LastRun is the newest run; nil if there is none.
	LastRun *Run `json:"last_run,omitempty"`

	revision uint64        // 0: ended
	body     []byte        // as it is stored
	ttl      time.Duration // of ticks; 0 means no limit
	from     time.Time     // the interval counts from it
	tick     bus.Stored    // the newest one
	ours     bool          // this package wrote the schedule
	foreign  bool          // the body is not that of a job
}

// kept reports whether a program keeps the heartbeat. Another program may have stored one that is none, or another kind.
func (e Entry) kept() bool { return e.Kind == bus.Heartbeat && !e.foreign }

// position is where the entry is in lists; List continues after it. That of a job is the name of
// its schedule.
func (e Entry) position() string {
	if e.Kind == "" {
		return e.stored
	}
	return e.Kind + "." + e.stored
}

// Upcoming returns the next n due times; none if the job is disabled.
func (e Entry) Upcoming(n int) []time.Time {
	if e.Disabled || e.Next.IsZero() || n <= 0 {
		return nil
	}
	return append([]time.Time{e.Next}, e.DueAfter(e.Next, n-1)...)
}

// inZone converts a time to the job's time zone.
func (j Job) inZone(t time.Time) time.Time {
	if loc, err := time.LoadLocation(j.TimeZone); err == nil {
		return t.In(loc)
	}
	return t.UTC()
}

// EntryJSON is the form of an Entry in JSON: its fields, and others in the form of a Request.
type EntryJSON struct {
	entryFields
	Schedule string `json:"schedule"` // its name in subjects
	When     string `json:"when"`
	Every    string `json:"every,omitempty"` // such as "30m"
	Timeout  string `json:"timeout,omitempty"`
	Enabled  bool   `json:"enabled"`
	Idle     string `json:"idle,omitempty"` // why there is no next run
}

type entryFields Entry // without MarshalJSON

// Fields returns the form of e in JSON, to which other fields can be added.
func (e Entry) Fields() EntryJSON {
	return EntryJSON{entryFields(e), e.stored, e.When(), duration(e.Every), duration(e.Timeout), !e.Disabled, e.Idle()}
}

// MarshalJSON writes an EntryJSON.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.Fields()) }

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
