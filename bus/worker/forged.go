package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// The results stream keeps the first message of each subject. A client of the worker's
// account can publish a message on the subject of a result, a completion or a claim before
// a worker does, or make the server publish an acknowledgement there. Such a message is not
// the outcome of the call, and must not block it: the worker removes it.

// maxForged is how often a worker publishes the same event again after it removed a message
// in its place.
const maxForged = 20

// readResult reads the event that is stored on the subject of a result or a completion. It
// removes a forged one, which then counts as none.
func (w *Worker) readResult(ctx context.Context, subject string) (stored task.StoredResult, ok bool, err error) {
	stored, ok, err = task.ReadStored(ctx, w.bus, subject)
	return stored, ok, w.removeForged(ctx, err)
}

// removeForged removes the message if err is a *task.ForgedError. It returns another error
// unchanged.
func (w *Worker) removeForged(ctx context.Context, err error) error {
	forged, ok := errors.AsType[*task.ForgedError](err)
	if !ok {
		return err
	}
	if err := task.Delete(ctx, w.bus, forged.Sequence); err != nil {
		return fmt.Errorf("remove the forged message %d from %q: %w; this needs the permission to publish to $JS.API.STREAM.MSG.DELETE.%s", forged.Sequence, forged.Subject, err, w.bus.StreamName(bus.Results))
	}
	w.log.Warn().Str("subject", forged.Subject).Uint64("sequence", forged.Sequence).Str("reason", tools.Excerpt(forged.Error(), 300)).
		Msg("removed a message that no worker published; a client of this account has published it or caused it")
	return nil
}

// isStored reports whether an event is stored on the subject, after the server rejected one
// because of it. The rejecting message may have been forged, or may have expired.
func (w *Worker) isStored(ctx context.Context, subject string) (stored bool, err error) {
	err = w.readWithRetry(ctx, func() (err error) {
		_, stored, err = w.readResult(ctx, subject)
		return err
	})
	return stored, err
}
