package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/schedule"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Heartbeat is the schedule of a heartbeat with its last run.
type Heartbeat struct {
	schedule.Status `json:"-"`
	Name            string    `json:"name"`
	When            string    `json:"when"`
	Tool            string    `json:"tool"`
	Session         string    `json:"session"`
	Next            time.Time `json:"next,omitzero"`
	// LastRun is nil before the first run. Used is what it used, with its sub-agents.
	LastRun *cron.Run   `json:"last_run,omitempty"`
	Used    agent.Total `json:"used"`
}

// Heartbeats returns the heartbeats that have a schedule, by name. One without instructions
// has none.
func Heartbeats(ctx context.Context, b *bus.Bus) ([]Heartbeat, error) {
	beats := []Heartbeat{}
	for s, err := range schedule.New(b).List(ctx, bus.Heartbeat) {
		if err != nil {
			return nil, err
		}
		var tick tools.Tick
		_ = json.Unmarshal(s.Body, &tick) // of another program; then it has no tool
		h := Heartbeat{Status: s, Name: s.Name, When: s.When(), Tool: tick.Tool, Session: tick.SessionToken(), Next: s.Next}
		if h.LastRun, _, err = cron.LastRun(ctx, b, bus.Heartbeat, s.Name); err == nil && h.LastRun != nil {
			h.Used, err = runTotal(ctx, b, tools.Call{ID: h.LastRun.Call, Session: tick.Session})
		}
		if err != nil {
			return nil, fmt.Errorf("heartbeat %s: %w", s.Name, err)
		}
		beats = append(beats, h)
	}
	return beats, nil
}

// runTotal returns what the run of a call used, with its sub-agents. The conversation of a call
// of subagent or spawn has a session of its own.
func runTotal(ctx context.Context, b *bus.Bus, call tools.Call) (total agent.Total, err error) {
	err = addRun(ctx, b, call.SessionToken(), call.ID, 0, &total)
	for _, id := range []string{call.ID, tools.Token(call.ID + "/" + agent.SubagentTool)} {
		if err == nil {
			own := agent.SubagentSession(tools.Call{ID: id, Session: call.Session})
			err = addRun(ctx, b, tools.TokenOf(own), "", 0, &total)
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
		if e.Kind == agent.KindAssistant {
			total.Turns++
		}
		total.Add(e.Usage)
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
