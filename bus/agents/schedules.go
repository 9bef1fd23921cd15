package agents

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Schedule is a job or a heartbeat as programs show it, without its arguments, which may be large: Shown is the
// start of those of a job.
type Schedule struct {
	cron.EntryJSON
	Shown    string      `json:"args_excerpt,omitempty"`
	Upcoming []time.Time `json:"upcoming"`
	// Used is what the last run of a heartbeat used, with its sub-agents.
	Used *agent.Total `json:"used,omitempty"`
}

const upcomingRuns = 5

// Schedules lists the schedules of a kind, bus.Cron or bus.Heartbeat, by name. A heartbeat without
// instructions has none.
func Schedules(ctx context.Context, b *bus.Bus, kind string) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		for e, err := range cron.New(b).List(ctx, cron.Caller{Operator: true}, kind, "") {
			shown := tools.ShownArgs(tools.Call{Args: e.Args})
			e.Args = nil
			s := Schedule{EntryJSON: e.Fields(), Upcoming: append([]time.Time{}, e.Upcoming(upcomingRuns)...)}
			if kind == bus.Heartbeat && err == nil {
				s.Used = new(agent.Total)
				if e.LastRun != nil {
					*s.Used, err = runTotal(ctx, b, tools.Call{ID: e.LastRun.Call, Session: e.Session})
				}
			}
			if kind == bus.Cron {
				s.Shown = shown
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// runTotal returns what the run of a call used, with its sub-agents. The conversation of a call
// of subagent or spawn has a session of its own.
func runTotal(ctx context.Context, b *bus.Bus, call tools.Call) (total agent.Total, err error) {
	err = addRun(ctx, b, call.SessionToken(), call.ID, 0, &total)
	for _, call.Tool = range []string{agent.SubagentTool, agent.SpawnTool} {
		if child, _ := agent.ChildCall(call); err == nil {
			err = addRun(ctx, b, tools.TokenOf(agent.SubagentSession(child)), "", 0, &total)
		}
	}
	return total, err
}

// maxRunEntries limits the entries that are read to find a run.
const maxRunEntries = 5000

// addRun adds what a run of a session and its sub-agents used; without a run, all of the
// session.
func addRun(ctx context.Context, b *bus.Bus, session, run string, depth int, total *agent.Total) error {
	var entries []agent.Entry
	n := 0
	for m, err := range b.Read(ctx, bus.Sessions, bus.Back(b.Session(session), 0)) {
		if err != nil {
			return err
		}
		e, err := agent.DecodeEntry(m.Body)
		if err == nil && (run == "" || e.Run == run) {
			entries = append(entries, e)
		}
		if n++; n == maxRunEntries || err == nil && e.Kind == agent.KindUser && e.Run == run {
			break
		}
	}
	slices.Reverse(entries)
	for _, e := range entries {
		total.Count(e)
	}
	for _, child := range agent.SubagentSessions(entries) {
		if depth < maxNesting {
			if err := addRun(ctx, b, tools.TokenOf(child), "", depth+1, total); err != nil {
				return err
			}
		}
	}
	return nil
}
