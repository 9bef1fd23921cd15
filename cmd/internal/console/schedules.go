package console

import (
	"net/http"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
)

// operator can see and change the jobs of all sessions.
var operator = cron.Caller{Operator: true}

// scheduleLine is a job or a heartbeat.
type scheduleLine struct {
	Kind      string            `json:"kind"`
	Name      string            `json:"name"`
	When      string            `json:"when"`
	Enabled   bool              `json:"enabled"`
	Upcoming  []time.Time       `json:"upcoming"`
	Job       *cron.Entry       `json:"job,omitempty"`
	Heartbeat *agents.Heartbeat `json:"heartbeat,omitempty"`
}

const (
	upcomingRuns = 5
	maxSchedules = 1000
)

// schedules lists the schedules with their next runs.
func (c *Console) schedules(r *http.Request) (any, error) {
	lines := []scheduleLine{}
	omitted := 0
	beats, err := agents.Heartbeats(r.Context(), c.bus)
	if err != nil {
		return nil, err
	}
	for _, h := range beats {
		line := scheduleLine{Kind: bus.Heartbeat, Name: h.Name, When: h.When, Enabled: !h.Disabled, Heartbeat: &h, Upcoming: []time.Time{}}
		if !h.Disabled && !h.Next.IsZero() {
			line.Upcoming = append(append(line.Upcoming, h.Next), h.Schedule.Upcoming(h.Next, upcomingRuns-1)...)
		}
		lines = append(lines, line)
	}
	for e, err := range cron.New(c.bus).List(r.Context(), operator, "") {
		if err != nil {
			return nil, err
		}
		if len(lines) >= maxSchedules {
			omitted++
			continue
		}
		e.Args = nil // may be large; the page shows what the job calls, not with what
		lines = append(lines, scheduleLine{Kind: bus.Cron, Name: e.Name, When: e.When(), Enabled: !e.Disabled,
			Upcoming: append([]time.Time{}, e.Upcoming(upcomingRuns)...), Job: &e})
	}
	return map[string]any{"schedules": lines, "omitted": omitted}, nil
}

// changeSchedule enables, disables or removes a job.
func (c *Console) changeSchedule(r *http.Request) (any, error) {
	action := r.PathValue("action")
	switch action {
	case cron.ActionEnable, cron.ActionDisable, cron.ActionRemove:
		return cron.New(c.bus).Do(r.Context(), operator, "", cron.Request{Action: action, Name: r.PathValue("name")})
	}
	return nil, badArgument("unknown action %q; known are enable, disable, remove", tools.Excerpt(action, 40))
}
