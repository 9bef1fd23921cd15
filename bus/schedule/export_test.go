package schedule

import (
	"context"
	"time"

	"github.com/rs/zerolog"
)

// CanonicalCron returns the canonical form of an expression.
func CanonicalCron(expression string) (string, error) { return cronFields(expression) }

// RunSkipped runs what is checked each half hour.
func (st *Store) RunSkipped(ctx context.Context, now time.Time) error {
	return st.runSkipped(ctx, now, zerolog.Nop())
}

// Skipped returns when a schedule has to run although its time was skipped.
func (s Schedule) Skipped(from, to time.Time) (time.Time, bool) { return s.skipped(from, to) }
