package cron_test

import (
	"fmt"
	"testing"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/cron"
)

// A list of a session's jobs reads only its jobs, however many other sessions have.
func TestListReadsOnlyTheSession(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	jobs := cron.New(b)
	for i := range 60 {
		for _, session := range []string{"mine", fmt.Sprint("other", i), "other-"} { // the last one is stored under a hash
			if session != "mine" || i < 3 {
				j := cron.Job{Name: fmt.Sprint("job", i), Cron: "0 0 * * *", Tool: "echo", Session: session}
				if _, err := jobs.Add(t.Context(), cron.Caller{Operator: true}, j); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for session, want := range map[string]struct{ jobs, requests int }{"mine": {3, 150}, "other7": {1, 150}, "other-": {60, 500}} {
		before, n := b.Conn().Stats().OutMsgs, 0
		for e, err := range jobs.List(t.Context(), cron.Caller{Session: session}, "", "") {
			if err != nil || e.Session != session {
				t.Fatal(e, err)
			}
			n++
		}
		if sent := int(b.Conn().Stats().OutMsgs - before); n != want.jobs || sent > want.requests {
			t.Errorf("session %q: %d jobs with %d requests, want %d with at most %d", session, n, sent, want.jobs, want.requests)
		}
	}
}
