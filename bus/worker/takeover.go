package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus/task"
)

// takeOver finds out whether the deliveries of an earlier process are certainly without a
// worker. It is called before this worker consumes or answers requests.
//
// With OwnServer, the server and the worker end together. So a call that was stored before
// this start can only have run in a dead process, unless another worker uses the server:
// that worker answers.
func (w *Worker) takeOver(ctx context.Context) error {
	if !w.cfg.OwnServer {
		return nil
	}
	_, others, err := task.RequestAny(ctx, w.bus, w.bus.RPC("offer"), []byte(`{"brief":true}`), w.cfg.AskTimeout)
	if err != nil || others {
		return err
	}
	w.aloneAt = time.Now()
	return nil
}

// holderDied reports whether it is certain that no process runs the call any more, without
// asking the workers. claim is that of a once-only call; it may be empty.
func (w *Worker) holderDied(a *attempt, claim task.Claim) bool {
	if !w.cfg.OwnServer {
		return false
	}
	if claim != (task.Claim{}) {
		return claim.OwnServer && claim.Process != "" && claim.Process != w.process
	}
	return a.delivery.Published.Before(w.aloneAt)
}
