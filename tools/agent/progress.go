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

// reportWaiting reports what the run waits for.
func (r *run) reportWaiting(ctx context.Context, turn int, what string) {
	r.reportProgress(ctx, turn, what, tools.Activity{Type: tools.ActivityWaiting, Turn: turn, Text: what})
}

// slowAnswer is how long a model may take until the user sees that the run waits for it.
const slowAnswer = 5 * time.Second

// ask asks the model for the next turn, and reports its text as it arrives.
func (r *run) ask(ctx context.Context, req Request) (Response, error) {
	turn := r.conv.open.turns + 1
	slow := time.AfterFunc(slowAnswer, func() { r.reportWaiting(ctx, turn, "the model has not answered yet") })
	defer slow.Stop()
	req.OnText = func(offset int, text string) {
		slow.Stop()
		r.reportProgress(ctx, turn, "the model is answering", tools.Activity{Type: tools.ActivityText, Turn: turn, Offset: offset, Text: text})
	}
	return r.provider.Complete(ctx, req)
}

// reportCall reports that a call of the last turn starts, and returns the function
// that reports its end.
func (r *run) reportCall(ctx context.Context, call tools.Call) (ended func(*CallResult)) {
	turn, started := r.conv.open.turns, r.conv.open.asked // a call that was parked began in an earlier attempt
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
		if res.IsError {
			activity.Text = tools.ErrorExcerpt(res.ForLLM)
		}
		r.reportProgress(ctx, turn, activity.Tool+" ended", activity)
	}
}
