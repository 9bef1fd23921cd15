package cron

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// Run is one run of a schedule, read from the events on the bus.
type Run struct {
	// Call is the id of its call, in the schedule's session.
	Call string `json:"call"`
	// Due is the due time of the run.
	Due time.Time `json:"slot"`
	// Outcome is empty until there is a result, and Async while the work continues
	// in the background.
	Outcome tools.Outcome `json:"outcome,omitempty"`
	// Message is the error of a run that did not succeed.
	Message string    `json:"message,omitempty"`
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// lastRun returns the newest run of a job, or nil.
func (js *Jobs) lastRun(ctx context.Context, j Job) (*Run, error) {
	b := js.bus
	last, err := b.Last(ctx, bus.Ticks, b.RunOf(j.kind(), j.scheduleName()))
	if err != nil || last.Sequence == 0 {
		return nil, err
	}
	var record RunRecord
	if json.Unmarshal(last.Body, &record) != nil || record.Call == "" || record.Session != j.Session {
		return nil, nil // not a job's, or of an earlier job with this name
	}
	run := &Run{Call: record.Call, Due: record.Due}
	call := tools.Call{ID: record.Call, Session: record.Session}
	stored, err := task.ReadResults(ctx, b, call.SessionToken(), call.IDToken())
	if err != nil {
		return nil, err
	}
	for _, event := range stored {
		run.apply(event.ResultEvent)
	}
	switch {
	case task.Ended(stored):
	case time.Now().After(record.Deadline):
		run.Message = "the result is no longer stored"
	case len(stored) == 0:
		lost, err := task.IsLost(ctx, b, tools.CallKey{Session: call.SessionToken(), ID: call.IDToken()})
		if err != nil {
			return nil, err
		}
		if lost {
			run.Message = "no stream has its call; the next tick starts it"
		}
	}
	return run, nil
}

func (run *Run) apply(e tools.ResultEvent) {
	run.Outcome = e.Outcome
	if e.Outcome != tools.Async {
		run.EndedAt = e.StartedAt.Add(time.Duration(e.DurationMS) * time.Millisecond)
	}
	if e.IsError {
		run.Message = e.ForLLM
		if run.Message == "" && e.Error != nil {
			run.Message = e.Error.Message
		}
		run.Message = tools.Excerpt(run.Message, 1000)
	}
}
