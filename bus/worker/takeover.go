package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

const (
	// returnTime is longer than other workers need to connect to a server that has restarted.
	returnTime = 15 * time.Second
	// announceInterval is the pause between two announcements of a worker.
	announceInterval = time.Hour
)

// takeOver finds out whether the deliveries of an earlier process are certainly without a
// worker. It is called before this worker consumes or answers requests.
//
// With OwnServer, the server and the worker end together. So a call that was stored before
// this start can only have run in a dead process, unless another worker uses the server. That
// one has announced itself, and may need a while until it is connected again and answers.
func (w *Worker) takeOver(ctx context.Context) error {
	if !w.cfg.OwnServer {
		return w.announce(ctx)
	}
	others, err := task.OthersAnnounced(ctx, w.bus)
	if others {
		w.locator.OthersBackBy = time.Now().Add(returnTime)
	} else if err == nil {
		w.locator.AloneAt = time.Now()
	}
	return err
}

// announce announces this worker to the next process of the server.
func (w *Worker) announce(ctx context.Context) error {
	return retry.Log(ctx, w.log, "cannot announce this worker", startTimeout, bus.IsClosed, func() error { return task.Announce(ctx, w.bus) })
}

// keepAnnounced repeats the announcement until ctx ends.
func (w *Worker) keepAnnounced(ctx context.Context) {
	ticker := time.NewTicker(announceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = w.announce(ctx) // retry has logged it
		}
	}
}
