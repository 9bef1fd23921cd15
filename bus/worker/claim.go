package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
)

// claimBody is the message that is stored on the claim subject.
type claimBody struct {
	Worker string    `json:"worker"`
	Nonce  string    `json:"nonce"`
	Digest string    `json:"call_digest,omitempty"`
	At     time.Time `json:"at"`
}

// claim registers the job as running here until executions.end, and returns the
// context for its tool. If another delivery or worker has the call, claim waits as
// resume does; ended is true if the call then has its final result.
func (w *Worker) claim(ctx context.Context, j *job) (toolCtx context.Context, ended bool, err error) {
	for {
		toolCtx, claimed := w.executions.begin(ctx, w, j)
		if claimed && j.once() {
			claimed, err = w.writeClaim(ctx, j)
		}
		if claimed || err != nil {
			return toolCtx, false, err
		}
		w.executions.end(j)
		if ended, err := w.resume(ctx, j); ended || err != nil {
			return nil, ended, err
		}
	}
}

// writeClaim reports whether the stored claim is this job's. The first claim wins.
// The nonce identifies our own claim if its acknowledgement was lost.
func (w *Worker) writeClaim(ctx context.Context, j *job) (claimed bool, err error) {
	claim := claimBody{Worker: w.cfg.Name, Nonce: nuid.Next(), Digest: j.digest, At: j.started}
	body, err := bus.Encode(claim)
	if err != nil {
		return false, err
	}
	err = w.publishWithRetry(ctx, bus.Message{Subject: w.bus.Claim(j.key.session, j.key.id), Body: body})
	if !errors.Is(err, bus.ErrSubjectExists) {
		return err == nil, err
	}
	stored, ok, err := w.readClaim(ctx, j.key)
	return ok && stored.Nonce == claim.Nonce, err
}

func (w *Worker) readClaim(ctx context.Context, k key) (claim claimBody, ok bool, err error) {
	var body []byte
	err = w.readWithRetry(ctx, func() (err error) {
		body, ok, err = w.bus.LastMessage(ctx, bus.Results, w.bus.Claim(k.session, k.id))
		return err
	})
	if !ok || err != nil {
		return claimBody{}, false, err
	}
	if err := json.Unmarshal(body, &claim); err != nil {
		// Any message on the subject means that the call was claimed.
		w.log.Warn().Err(err).Str("call", k.id).Str("session", k.session).Msg("cannot decode the claim")
	}
	return claim, true, nil
}
