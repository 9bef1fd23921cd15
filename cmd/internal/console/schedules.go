package console

import (
	"net/http"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/agents"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/tools"
)

// operator can see and change the jobs of all sessions.
var operator = cron.Caller{Operator: true}

// maxSchedules is the most schedules that the page shows.
const maxSchedules = 1000

// schedules lists the schedules with their next runs, those of heartbeats first.
func (c *Console) schedules(r *http.Request) (any, error) {
	lines := []agents.Schedule{}
	omitted := 0
	for _, kind := range []string{bus.Heartbeat, bus.Cron} {
		for s, err := range agents.Schedules(r.Context(), c.bus, kind) {
			switch {
			case err != nil:
				return nil, err
			case len(lines) >= maxSchedules:
				omitted++
			default:
				lines = append(lines, s)
			}
		}
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
