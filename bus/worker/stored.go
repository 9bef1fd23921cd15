package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
)

// storeTimeout is how long the worker retries a failing artifact store before it
// publishes an error result instead of the content: longer than a server restart.
const storeTimeout = 5 * time.Minute

// A failed publish or read does not fail the call: that would count as an attempt
// of a call that did nothing wrong, or run its tool again.

// retry calls do until it succeeds, its error is final, ctx ends, or limit has
// passed (0: no limit). It logs each failure as message.
func (w *Worker) retry(ctx context.Context, message string, limit time.Duration, final func(error) bool, do func() error) error {
	err := do()
	if err == nil || final(err) {
		return err
	}
	return retry.Do(ctx, retry.Pauses(200*time.Millisecond, 10*time.Second, limit), final, func(err error, pause time.Duration) {
		w.log.Warn().Err(err).Stringer("retry_in", pause.Round(time.Millisecond)).Msg(message)
	}, do)
}

// publishWithRetry publishes, and retries while the bus is unreachable or full.
func (w *Worker) publishWithRetry(ctx context.Context, msg bus.Message) error {
	msg.Timeout, msg.WaitIfFull = bus.NoTimeout, true
	_, err := w.bus.Publish(ctx, msg)
	return err
}

// readWithRetry reads from the results stream, and retries while the bus is
// unreachable.
func (w *Worker) readWithRetry(ctx context.Context, read func() error) error {
	return w.retry(ctx, "cannot read results", 0, isClosed, read)
}

func isClosed(err error) bool { return errors.Is(err, nats.ErrConnectionClosed) }

// readResults returns the stored events of a call, and removes forged ones.
func (w *Worker) readResults(ctx context.Context, k tools.CallKey) ([]task.StoredResult, error) {
	return task.CollectResults(w.bus, k.Session, k.ID, func(subject string) (task.StoredResult, bool, error) {
		return w.readResult(ctx, subject)
	})
}

// withStoreRetry retries do while the store fails, for storeTimeout at most, and longer while
// the bus does not answer: the result could not be published then either. An error of the
// caller and a full store are final.
func (w *Worker) withStoreRetry(ctx context.Context, do func() error) error {
	final := func(err error) bool {
		_, callerError := errors.AsType[*tools.Error](err)
		return callerError || errors.Is(err, offload.ErrQuota)
	}
	for {
		err := w.retry(ctx, "the artifact store fails", storeTimeout, final, do)
		if err == nil || final(err) || ctx.Err() != nil {
			return err
		}
		if _, down := bus.CheckStreams(ctx, w.bus); isClosed(down) || !bus.IsOutage(down) && !errors.Is(down, bus.ErrNoLeader) {
			return do() // it may answer since just now
		}
	}
}

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
	err = w.readWithRetry(ctx, func() error {
		stored, ok, err = task.ReadStored(ctx, w.bus, subject)
		return w.removeForged(ctx, err)
	})
	return stored, ok, err
}

// removeForged removes the message if err is a *task.ForgedError. It returns another error
// unchanged.
func (w *Worker) removeForged(ctx context.Context, err error) error {
	forged, ok := errors.AsType[*task.ForgedError](err)
	if !ok {
		return err
	}
	if err := task.Delete(ctx, w.bus, forged.Sequence); err != nil {
		return fmt.Errorf("remove the forged message %d from %q: %w; this needs the permission to publish to "+
			"$JS.API.STREAM.MSG.DELETE.%s", forged.Sequence, forged.Subject, err, w.bus.StreamName(bus.Results))
	}
	w.log.Warn().Str("subject", forged.Subject).Uint64("sequence", forged.Sequence).Str("reason", tools.Excerpt(forged.Error(), 300)).
		Msg("removed a message that no worker published; a client of this account has published it or caused it")
	return nil
}

// publishFirst publishes the only event of a subject. won is false if the subject already
// holds one, which read reads. A rejecting message may have been forged, or may have expired.
func (w *Worker) publishFirst(ctx context.Context, m bus.Message, read func() (stored bool, err error)) (won bool, err error) {
	for range maxForged {
		if err = w.publishWithRetry(ctx, m); !errors.Is(err, bus.ErrSubjectExists) {
			return err == nil, err
		}
		if stored, err := read(); stored || err != nil {
			return false, err
		}
	}
	return false, errors.New("the server rejected the event because of an earlier one, which does not exist")
}

// claim registers the attempt as running here until executions.end, and returns the
// context for its tool. If another delivery or worker has the call, claim waits as
// resume does; ended is true if the call then has its final result.
func (w *Worker) claim(ctx context.Context, a *attempt) (toolCtx context.Context, ended bool, err error) {
	for {
		toolCtx, claimed := w.executions.begin(ctx, w, a)
		if claimed && a.once() {
			_, claimed, err = w.writeClaim(ctx, a, task.Claim{})
		}
		if claimed || err != nil {
			return toolCtx, false, err
		}
		w.executions.end(a)
		if ended, err := w.resume(ctx, a); ended || err != nil {
			return nil, ended, err
		}
	}
}

// writeClaim completes and publishes the claim of the attempt. It returns the stored claim
// and whether it is this one: the first claim wins. The nonce identifies our own claim
// if its acknowledgement was lost.
func (w *Worker) writeClaim(ctx context.Context, a *attempt, claim task.Claim) (stored task.Claim, won bool, err error) {
	claim.Worker, claim.Nonce, claim.Digest, claim.At = w.cfg.Name, nuid.Next(), a.digest, a.started
	claim.Process, claim.OwnServer = w.process, w.cfg.OwnServer
	body, err := bus.Encode(claim)
	if err != nil {
		return task.Claim{}, false, err
	}
	won, err = w.publishFirst(ctx, bus.Message{Subject: w.bus.Claim(a.key.Session, a.key.ID), Body: body}, func() (ok bool, err error) {
		stored, ok, err = w.readClaim(ctx, a.key)
		return ok, err
	})
	if won {
		stored = claim
	}
	return stored, won || err == nil && stored.Nonce == claim.Nonce, err
}

// readClaim reads the claim of a call. It removes a forged one, which then counts as none.
func (w *Worker) readClaim(ctx context.Context, k tools.CallKey) (claim task.Claim, ok bool, err error) {
	err = w.readWithRetry(ctx, func() error {
		var sequence uint64
		claim, sequence, err = task.ReadClaim(ctx, w.bus, k.Session, k.ID)
		ok = sequence > 0 && err == nil
		return w.removeForged(ctx, err)
	})
	return claim, ok, err
}
