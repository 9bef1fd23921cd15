package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/schedule"
)

// Expressions that parsers interpret differently get one canonical form, which the server
// accepts.
func TestCanonicalCron(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	from := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // a Friday
	for _, test := range []struct{ cron, canonical, next string }{
		{"30 9 * * MON-fri", "0 30 9 * * 1-5", "2026-11-23T09:30:00Z"},
		{"0 0 * * 7", "0 0 0 * * 0", "2026-11-22T00:00:00Z"},
		{"0 0 * * 5-7/2", "0 0 0 * * 5,0", "2026-11-22T00:00:00Z"},
		{"0 0 */2 * 1", "0 0 0 1-31/2 * 1", "2026-11-21T00:00:00Z"}, // odd days, and Mondays
		{"0 0 1 * 0-6", "0 0 0 1 * 0-6", "2026-11-21T00:00:00Z"},
		{"0 0 1 * */1", "0 0 0 1 * *", "2026-12-01T00:00:00Z"},
		{"0 0 ? feb *", "0 0 0 * 2 *", "2027-02-01T00:00:00Z"},
		{"15 5/20 0 * * *", "15 5-59/20 0 * * *", "2026-11-21T00:05:15Z"},
		{"0 0 * * 5-7/9223372036854775807", "0 0 0 * * 5", "2026-11-27T00:00:00Z"},
		{"@hourly", "0 0 * * * *", "2026-11-20T13:00:00Z"},
	} {
		s := schedule.Schedule{Kind: bus.Cron, Name: "job", Cron: test.cron}
		next := s.Upcoming(from, 1)
		if len(next) != 1 || next[0].Format(time.RFC3339) != test.next {
			t.Errorf("%q is due at %v, want %s", test.cron, next, test.next)
		}
		if _, err := schedule.New(b).Put(t.Context(), s); err != nil {
			t.Error(err)
		}
		if got, _, err := schedule.New(b).Get(t.Context(), bus.Cron, "job"); err != nil || got.Cron != test.canonical {
			t.Errorf("%q is stored as %q, %v, want %q", test.cron, got.Cron, err, test.canonical)
		}
	}
}

// Every expression is either rejected or gets a canonical form, which is its own
// canonical form and has a next time.
func FuzzCron(f *testing.F) {
	for _, seed := range []string{"30 9 * * 1-5", "*/15 0-59/7 1,15 JAN-MAR ? 5-7", "@daily", "0 0 L * 5#2", "0 0 * * 0-7/9223372036854775807"} {
		f.Add(seed)
	}
	from := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression string) {
		s := schedule.Schedule{Cron: expression}
		if s.Validate() != nil {
			return
		}
		canonical, err := schedule.CanonicalCron(expression)
		if err != nil || len(strings.Fields(canonical)) != 6 {
			t.Fatalf("%q becomes %q, %v", expression, canonical, err)
		}
		if again, err := schedule.CanonicalCron(canonical); err != nil || again != canonical {
			t.Errorf("%q becomes %q, and that %q, %v", expression, canonical, again, err)
		}
		if next := s.Upcoming(from, 2); len(next) > 0 && !next[0].After(from) || len(next) > 1 && !next[1].After(next[0]) {
			t.Errorf("%q is due at %v", expression, next)
		}
	})
}
