package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
)

// The server understands an expression as we do: it accepts the form that is stored, and the times
// are the same before and after a schedule is stored.
func TestExpressions(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	from := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // a Friday
	for _, test := range []struct{ cron, stored, next string }{
		{"30 9 * * MON-fri", "0 30 9 * * MON-fri", "2026-11-23T09:30:00Z"},
		{"0 0 * * 7", "0 0 0 * * 0", "2026-11-22T00:00:00Z"},
		{"0 0 * * 2,6-7", "0 0 0 * * 2,6-6,0", "2026-11-21T00:00:00Z"},
		{"0 0 */2 * 1", "0 0 0 */2 * 1", "2026-11-21T00:00:00Z"}, // odd days, and Mondays
		{"0 0 1 * 0-6", "0 0 0 1 * 0-6", "2026-11-21T00:00:00Z"},
		{"0 0 1 * */1", "0 0 0 1 * */1", "2026-12-01T00:00:00Z"},
		{"0 0 ? feb *", "0 0 0 ? feb *", "2027-02-01T00:00:00Z"},
		{"15 5/20 0 * * *", "15 5/20 0 * * *", "2026-11-21T00:05:15Z"},
		{"0 0 * * 5-6/9223372036854775807", "0 0 0 * * 5-6/9223372036854775807", "2026-11-27T00:00:00Z"},
		{"@hourly", "0 0 * * * *", "2026-11-20T13:00:00Z"},
	} {
		s := cron.Job{Name: "job", Tool: "x", Cron: test.cron}
		next := s.DueAfter(from, 2)
		if len(next) != 2 || next[0].Format(time.RFC3339) != test.next || !s.Before(next[1]).Equal(next[0]) {
			t.Errorf("%q is due at %v, want %s", test.cron, next, test.next)
		}
		if _, err := cron.New(b).Put(t.Context(), s, true); err != nil {
			t.Error(err)
		}
		got, err := cron.New(b).Get(t.Context(), operator, "job")
		if err != nil || got.Cron != strings.TrimPrefix(test.stored, "0 ") || !got.DueAfter(from, 1)[0].Equal(next[0]) {
			t.Errorf("%q is stored as %q, %v, want %q", test.cron, got.Cron, err, test.stored)
		}
	}
}

// The due time of a tick follows from that of the next one, also over the years and over changes of
// the clocks.
func TestDueTimeBefore(t *testing.T) {
	for _, test := range []struct{ cron, zone, next, want string }{
		{"0 0 29 2 *", "", "2028-02-29T00:00:00Z", "2024-02-29T00:00:00Z"},
		{"* * * 1 *", "", "2027-01-01T00:00:00Z", "2026-01-31T23:59:00Z"},
		{"* * * * * *", "", "2027-01-01T00:00:00Z", "2026-12-31T23:59:59Z"},
		{"30 9 * * 1-5", "Europe/Berlin", "2027-03-29T07:30:00Z", "2027-03-26T08:30:00Z"},
		{"30 9 * * *", "", "2027-03-29T07:30:00Z", "2027-03-29T07:30:00Z"}, // not a due time
	} {
		next, err := time.Parse(time.RFC3339, test.next)
		if err != nil {
			t.Fatal(err)
		}
		if got := (cron.Job{Cron: test.cron, TimeZone: test.zone}).Before(next).UTC().Format(time.RFC3339); got != test.want {
			t.Errorf("%q before %s: %s, want %s", test.cron, test.next, got, test.want)
		}
	}
}

// Every expression is either rejected or has growing times, in each of which the one before is found.
func FuzzCron(f *testing.F) {
	for _, seed := range []string{"30 9 * * 1-5", "*/15 0-59/7 1,15 JAN-MAR ? 5-7", "@daily", "0 0 L * 5#2", "0 0 * * 0-7/9223372036854775807", ", * * * *"} {
		f.Add(seed)
	}
	from := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expression string) {
		s := cron.Job{Cron: expression}
		if s.ValidateTimes() != nil {
			return
		}
		next := s.DueAfter(from, 2)
		if len(next) > 0 && !next[0].After(from) || len(next) > 1 && (!next[1].After(next[0]) || !s.Before(next[1]).Equal(next[0])) {
			t.Errorf("%q is due at %v", expression, next)
		}
	})
}
