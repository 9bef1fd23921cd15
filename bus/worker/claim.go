package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
)

// claimBody is what stands on the claim's subject.
type claimBody struct {
	Worker string    `json:"worker"`
	Nonce  string    `json:"nonce"`
	Digest string    `json:"call_digest,omitempty"`
	At     time.Time `json:"at"`
}

// claim makes this worker the one that runs the job, until running.end, and
// returns the context that its tool runs in. If somebody else has the call,
// claim waits for the answer, as recall does.
func (w *Worker) claim(ctx context.Context, j *job) (toolCtx context.Context, answered bool, err error) {
	for {
		toolCtx, mine := w.running.begin(ctx, w, j)
		if mine && j.once() {
			mine, err = w.writeClaim(ctx, j)
		}
		if mine || err != nil {
			return toolCtx, false, err
		}
		w.running.end(j)
		if answered, err := w.recall(ctx, j); answered || err != nil {
			return nil, answered, err
		}
	}
}

// writeClaim reports whether the claim is this job's. The first writer wins,
// and a lost acknowledgement does not make a stranger of us.
func (w *Worker) writeClaim(ctx context.Context, j *job) (mine bool, err error) {
	claim := claimBody{Worker: w.cfg.Name, Nonce: nuid.Next(), Digest: j.digest, At: j.started}
	body, err := bus.Encode(claim)
	if err != nil {
		return false, err
	}
	err = w.persist(ctx, bus.Message{Subject: w.bus.Claim(j.key.session, j.key.id), Body: body})
	if !errors.Is(err, bus.ErrTaken) {
		return err == nil, err
	}
	stands, ok, err := w.readClaim(ctx, j.key)
	return ok && stands.Nonce == claim.Nonce, err
}

func (w *Worker) readClaim(ctx context.Context, k key) (claimBody, bool, error) {
	var body []byte
	var ok bool
	err := w.reading(ctx, func() (err error) {
		body, ok, err = w.bus.Last(ctx, bus.Results, w.bus.Claim(k.session, k.id))
		return err
	})
	if !ok || err != nil {
		return claimBody{}, false, err
	}
	var c claimBody
	if err := json.Unmarshal(body, &c); err != nil {
		// Whoever wrote this, the call was claimed.
		w.log.Warn().Err(err).Str("call", k.id).Str("session", k.session).Msg("unreadable claim")
	}
	return c, true, nil
}
