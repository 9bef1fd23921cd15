package worker

import (
	"context"
	"errors"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
)

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
	for range maxForged {
		err = w.publishWithRetry(ctx, bus.Message{Subject: w.bus.Claim(a.key.session, a.key.id), Body: body})
		if !errors.Is(err, bus.ErrSubjectExists) {
			return claim, err == nil, err
		}
		stored, ok, err := w.readClaim(ctx, a.key)
		if ok || err != nil {
			return stored, stored.Nonce == claim.Nonce, err
		}
	}
	return task.Claim{}, false, errors.New("the server rejected the claim because of an earlier one, which does not exist")
}

// readClaim reads the claim of a call. It removes a forged one, which then counts as none.
func (w *Worker) readClaim(ctx context.Context, k key) (claim task.Claim, ok bool, err error) {
	err = w.readWithRetry(ctx, func() error {
		var sequence uint64
		claim, sequence, err = task.ReadClaim(ctx, w.bus, k.session, k.id)
		ok = sequence > 0 && err == nil
		return w.removeForged(ctx, err)
	})
	return claim, ok, err
}
