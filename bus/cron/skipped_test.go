package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
)

// Clocks go forward on 28 March 2027 in Berlin, from 02:00 to 03:00, which is 01:00 UTC.
var forward = time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)

// A job in the hour that the clocks skip is due when they have gone forward, unless it is due
// in the hour that follows anyway.
func TestSkippedHour(t *testing.T) {
	for _, test := range []struct {
		cron, zone string
		now        time.Time
		want       bool
	}{
		{"30 2 * * *", "Europe/Berlin", forward, true},
		{"0 2 * * 0", "Europe/Berlin", forward.Add(50 * time.Minute), true},
		{"*/10 2 * * *", "Europe/Berlin", forward, true},
		{"30 2 * * *", "Europe/Berlin", forward.Add(-time.Second), false},
		{"30 2 * * *", "Europe/Berlin", forward.Add(2 * time.Hour), false},
		{"30 2 * * *", "Europe/Berlin", forward.AddDate(0, 0, -1), false},
		{"30 2 * * *", "Europe/Berlin", time.Date(2027, 10, 31, 1, 0, 0, 0, time.UTC), false}, // clocks go back
		{"30 2 * * *", "UTC", forward, false},
		{"30 2 * * *", "", forward, false},
		{"30 2 * * 1", "Europe/Berlin", forward, false}, // on Mondays
		{"30 * * * *", "Europe/Berlin", forward, false},
		{"30 2,3 * * *", "Europe/Berlin", forward, false},
		{"0 3 * * *", "Europe/Berlin", forward, false},
		{"30 1 * * *", "Europe/Berlin", forward, false},
		{"15 2 * * *", "Australia/Lord_Howe", time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC), true}, // by half an hour
	} {
		s := cron.Job{Cron: test.cron, TimeZone: test.zone}
		if at, ok := s.Skipped(test.now.Add(-time.Hour), test.now); ok != test.want || ok && at.After(test.now) {
			t.Errorf("%q in %q at %s: %s, %v", test.cron, test.zone, test.now, at, ok)
		}
	}
}

// A skipped job runs once, whoever looks for it and how often.
func TestSkippedJobRunsOnce(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	st := cron.New(b)
	for name, expression := range map[string]string{"night": "30 2 * * *", "morning": "30 8 * * *"} {
		if _, err := st.Put(t.Context(), cron.Job{Name: name, Cron: expression, TimeZone: "Europe/Berlin", Tool: name}, true); err != nil {
			t.Fatal(err)
		}
	}
	ticks := bustest.Subscribe(t, b, b.Tick(bus.Cron, "*"))
	for _, after := range []time.Duration{-time.Minute, time.Second, time.Second, 31 * time.Minute, 59 * time.Minute, 3 * time.Hour} {
		if err := cron.New(b).RunSkipped(t.Context(), forward.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := ticks.Pending(); n != 1 {
		t.Fatalf("%d ticks", n)
	}
	if msg, err := ticks.NextMsg(time.Second); err != nil || !strings.Contains(string(msg.Data), `"tool":"night"`) {
		t.Errorf("tick %v, %v", msg, err)
	}
}
