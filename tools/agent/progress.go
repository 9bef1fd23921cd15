package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// reportProgress reports what the run does in a turn, and the activities that belong
// to it.
func (r *run) reportProgress(ctx context.Context, turn int, what string, activity ...tools.Activity) {
	tools.ReportProgress(ctx, tools.Progress{
		Message: fmt.Sprintf("turn %d: %s", turn, what), Done: float64(turn - 1), Total: float64(r.limits.MaxTurns),
		Activity: activity,
	})
}

// streamed makes the run report the text of the turn as it arrives.
func (r *run) streamed(ctx context.Context, req Request) Request {
	turn := r.conv.open.turns + 1
	req.OnText = func(offset int, text string) {
		r.reportProgress(ctx, turn, "the model is answering", tools.Activity{Type: tools.ActivityText, Turn: turn, Offset: offset, Text: text})
	}
	return req
}

// reportCall reports that a call of the last turn starts, and returns the function
// that reports its end.
func (r *run) reportCall(ctx context.Context, call tools.Call) (ended func(*CallResult)) {
	turn, started := r.conv.open.turns, time.Now()
	activity := tools.Activity{Type: tools.ActivityToolStart, Turn: turn, Call: call.ID, Tool: tools.Excerpt(call.Tool, 80), Args: tools.ArgsExcerpt(call.Args)}
	r.reportProgress(ctx, turn, "calling "+activity.Tool, activity)
	return func(res *CallResult) {
		if res == nil {
			return // the call has no result yet, and another loop repeats it
		}
		activity := tools.Activity{
			Type: tools.ActivityToolEnd, Turn: turn, Call: call.ID, Tool: activity.Tool,
			Outcome: res.Outcome, DurationMS: time.Since(started).Milliseconds(),
		}
		r.reportProgress(ctx, turn, activity.Tool+" ended", activity)
	}
}
