package cron

import (
	"encoding/json"
	"time"

	"github.com/stevedore-bus/stevedore/bus/schedule"
)

// Entry is a job as the server stores it.
type Entry struct {
	Job
	// ChangedAt is the time of the last change.
	ChangedAt time.Time
	// Next is the next due time; zero if there is none.
	Next time.Time
	// Ended means that the time of a job that runs once has passed. Get returns an
	// ended job for a month; List never does.
	Ended bool
	// Unchanged: the update that returned the entry changed nothing.
	Unchanged bool
	// LastRun is the newest run; nil if there is none.
	LastRun *Run

	revision uint64
}

// Upcoming returns the next n due times; none if the job is disabled.
func (e Entry) Upcoming(n int) []time.Time {
	if e.Disabled || e.Next.IsZero() || n <= 0 {
		return nil
	}
	return append([]time.Time{e.Next}, e.times().Upcoming(e.Next, n-1)...)
}

// When describes the times of the job.
func (j Job) When() string { return j.times().When() }

func (j Job) times() schedule.Schedule {
	return schedule.Schedule{Every: j.Every, Cron: j.Cron, TimeZone: j.TimeZone, At: j.At}
}

// inZone converts a time to the job's time zone.
func (j Job) inZone(t time.Time) time.Time {
	if loc, err := time.LoadLocation(j.TimeZone); err == nil {
		return t.In(loc)
	}
	return t.UTC()
}

// EntryJSON is the form of an Entry in JSON.
type EntryJSON struct {
	Name      string          `json:"name"`
	Session   string          `json:"session"`
	Schedule  string          `json:"schedule"` // its name in subjects
	When      string          `json:"when"`
	At        time.Time       `json:"at,omitzero"`
	Every     string          `json:"every,omitempty"`
	Cron      string          `json:"cron,omitempty"`
	TimeZone  string          `json:"time_zone,omitempty"`
	Tool      string          `json:"tool"`
	Args      json.RawMessage `json:"args,omitempty"`
	Queue     string          `json:"queue,omitempty"`
	Channel   string          `json:"channel,omitempty"`
	ChatID    string          `json:"chat_id,omitempty"`
	Timeout   string          `json:"timeout,omitempty"`
	Overlap   bool            `json:"overlap,omitempty"`
	Enabled   bool            `json:"enabled"`
	Ended     bool            `json:"ended,omitempty"`
	Unchanged bool            `json:"unchanged,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	ChangedAt time.Time       `json:"changed_at,omitzero"`
	Next      time.Time       `json:"next,omitzero"`
	LastRun   *Run            `json:"last_run,omitempty"`
}

// MarshalJSON writes durations as in a Request, such as "30m".
func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(EntryJSON{
		e.Name, e.Session, e.stored, e.When(), e.At, duration(e.Every), e.Cron, e.TimeZone,
		e.Tool, e.Args, e.Queue, e.Channel, e.ChatID, duration(e.Timeout), e.Overlap, !e.Disabled, e.Ended, e.Unchanged,
		e.CreatedAt, e.ChangedAt, e.Next, e.LastRun,
	})
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
