package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// askInterval is the first pause between two questions about the same call; they
// grow, because every worker hears them.
const askInterval = 250 * time.Millisecond

// waitWhileRunningHere waits until a call that this worker has in hand has
// ended, and reports whether there was one.
func (w *Worker) waitWhileRunningHere(ctx context.Context, j *job) (busy bool, err error) {
	here := w.running.find(j.key)
	if here == nil {
		return false, nil
	}
	j.delivery.Detach()
	select {
	case <-here.ended:
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// pause waits. It costs no slot, and the lease is kept.
func (w *Worker) pause(ctx context.Context, j *job, d time.Duration) error {
	j.delivery.Detach()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runsElsewhere asks all workers; only the one that has the call answers.
func (w *Worker) runsElsewhere(ctx context.Context, k key) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.AskPatience)
	defer cancel()
	_, err := w.bus.Conn().RequestWithContext(ctx, w.bus.RPC("running", k.session, k.id), nil)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return false, nil
	}
	return false, fmt.Errorf("ask who runs call %s: %w", k.id, err)
}

// answerWhatRuns answers who has a call, <prefix>.rpc.running.<session>.<call>,
// and what a session has running, <prefix>.rpc.running.<session>. Workers that
// have nothing are silent.
func (w *Worker) answerWhatRuns() (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // gone with the connection otherwise
		}
	}
	for subject, find := range map[string]func(tokens []string) map[key]*inHand{
		w.bus.RPC("running", "*"): func(tokens []string) map[key]*inHand { return w.running.ofSession(tokens[2]) },
		w.bus.RPC("running", "*", "*"): func(tokens []string) map[key]*inHand {
			k := key{tokens[2], tokens[3]}
			if h := w.running.find(k); h != nil {
				return map[key]*inHand{k: h}
			}
			return nil
		},
	} {
		sub, err := w.bus.Conn().Subscribe(subject, func(msg *nats.Msg) {
			if found := find(w.bus.Split(msg.Subject)); len(found) > 0 {
				w.tellWhatRuns(msg, found)
			}
		})
		if err != nil {
			stop()
			return nil, fmt.Errorf("answer what runs here: %w", err)
		}
		subs = append(subs, sub)
	}
	return stop, nil
}

func (w *Worker) tellWhatRuns(msg *nats.Msg, found map[key]*inHand) {
	var calls []tools.RunningCall
	for k, h := range found {
		h.mu.Lock()
		calls = append(calls, tools.RunningCall{ID: k.id, Tool: h.job.call.Tool, Worker: w.cfg.Name, StartedAt: h.job.started, Progress: h.progress})
		h.mu.Unlock()
	}
	body, err := bus.Encode(calls)
	if err == nil {
		err = msg.Respond(body)
	}
	if err != nil {
		w.log.Warn().Err(err).Msg("cannot tell what runs here") // it is asked again
	}
}
