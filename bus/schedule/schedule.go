package schedule

import (
	"fmt"
	"strings"
	"time"
)

const (
	// minEvery is the shortest interval that the server supports.
	minEvery = time.Second
	// defaultTickTTL is how long a tick waits for a worker. The stream keeps only
	// the newest tick of a schedule, so this limits lateness, not a burst.
	defaultTickTTL = 24 * time.Hour
	// onceTTL is longer, because no later tick replaces the only one.
	onceTTL = 30 * 24 * time.Hour
)

// Schedule makes the server publish ticks, even if no client is connected. Exactly
// one of Every, Cron and At is set.
type Schedule struct {
	// Kind (bus.Heartbeat or bus.Cron) and Name identify the schedule. Name is a
	// token.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Every is the interval between ticks, in whole seconds. The first tick
	// comes one interval after Put.
	Every time.Duration `json:"every,omitempty"`
	// Cron is an expression of 5 fields, or 6 with seconds first, or @hourly,
	// @daily, @weekly, @monthly, @yearly.
	Cron string `json:"cron,omitempty"`
	// TimeZone is the IANA zone of Cron. Default UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// At is the time of the only tick. The server then deletes the schedule.
	At time.Time `json:"at,omitzero"`
	// TTL is how long a tick waits for a worker. Default 24 h, for At 30 days.
	TTL time.Duration `json:"ttl,omitempty"`
	// Disabled keeps the schedule but stops its ticks.
	Disabled bool `json:"disabled,omitempty"`
	// Body of each tick.
	Body []byte `json:"-"`
}

// Status is a schedule as the server stores it.
type Status struct {
	Schedule
	// Revision is the sequence of the last change, Since its time.
	Revision uint64    `json:"revision"`
	Since    time.Time `json:"since"`
	// Last is the due time of the newest tick, if the stream still has it; Next is the
	// time of the next tick.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`

	phase time.Time // a due time from which the interval counts; zero: from Since
	ours  bool      // this package wrote it
	tick  uint64    // the sequence of the newest tick
}

// start returns the time from which an interval counts.
func (s Status) start() time.Time {
	if s.phase.IsZero() {
		return s.Since.Round(time.Second) // as the server does
	}
	return s.phase
}

// Validate returns an error if the times of s are not valid.
func (s Schedule) Validate() error {
	_, err := s.pattern()
	return err
}

// Upcoming returns the next n times at which s is due after a time, or fewer if
// there are no more. An interval counts from after.
func (s Schedule) Upcoming(after time.Time, n int) []time.Time {
	var times []time.Time
	from := after
	for len(times) < n {
		next := s.next(from, after)
		if next.IsZero() {
			break
		}
		times = append(times, next)
		after = next
	}
	return times
}

// When describes in words when s is due.
func (s Schedule) When() string {
	switch {
	case s.Every > 0:
		return "every " + formatInterval(s.Every)
	case !s.At.IsZero():
		return "at " + s.At.UTC().Format(time.RFC3339)
	case s.TimeZone != "":
		return fmt.Sprintf("cron %q in %s", s.Cron, s.TimeZone)
	}
	return fmt.Sprintf("cron %q in UTC", s.Cron)
}

// formatInterval formats an interval as people write it: 1h, not 1h0m0s.
func formatInterval(d time.Duration) string {
	text := d.String()
	if minutes, ok := strings.CutSuffix(text, "m0s"); ok {
		text = minutes + "m"
	}
	if hours, ok := strings.CutSuffix(text, "h0m"); ok {
		text = hours + "h"
	}
	return text
}
