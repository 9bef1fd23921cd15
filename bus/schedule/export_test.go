package schedule

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// Before returns the last time before next at which a schedule was due.
func (s Schedule) Before(next time.Time) time.Time {
	times, err := s.dueTimes()
	if err != nil {
		return time.Time{}
	}
	return times.before(next)
}

// RunSkipped runs what is checked each half hour.
func (st *Store) RunSkipped(ctx context.Context, now time.Time) error {
	return st.runSkipped(ctx, now, zerolog.Nop())
}

// Skipped returns when a schedule has to run although its time was skipped.
func (s Schedule) Skipped(from, to time.Time) (time.Time, bool) { return s.skipped(from, to) }
