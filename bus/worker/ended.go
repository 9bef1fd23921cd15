package worker

import (
	"context"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
)

// hasEnded reports whether a stored call has its final result, so that its message may be
// removed although another worker settled it. A message whose id belongs to another call
// has no result; it stays, because it may not have become a dead letter yet.
func (w *Worker) hasEnded(ctx context.Context, d *bus.Delivery) (bool, error) {
	a, err := w.decode(d)
	if err != nil {
		return false, nil // it becomes a dead letter
	}
	stored, err := w.readResults(ctx, a.key)
	if len(stored) == 0 || err != nil || a.checkDigest(stored[0].Digest) != nil {
		return false, err
	}
	return task.Ended(stored) || a.completesElsewhere(w.registry), nil
}
