package worker

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// takeAhead records that this worker starts a call before the consumer of its queue delivers
// it, because the call's session has its turn. All workers follow the records.
func (w *Worker) takeAhead(ctx context.Context, subject string, sequence uint64) (bool, error) {
	c, ok := w.bus.SplitCall(subject)
	if !ok || !tools.IsToken(c.Session) || !tools.IsToken(c.ID) {
		return false, nil
	}
	return task.TakeAhead(ctx, w.bus, tools.CallKey{Session: c.Session, ID: c.ID}, sequence)
}
