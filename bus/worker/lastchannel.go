package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

// heardPatience bounds what an answer waits for the record of its channel.
const heardPatience = 2 * time.Second

// recordLastChannel begins to record where the user of a call was heard, while
// the call runs; wait returns when that is done, so that what comes after the
// call's result finds it. A failure costs the user's next result its way, not
// this call its answer, so it is logged only.
func (w *Worker) recordLastChannel(ctx context.Context, j *job) (wait func()) {
	if w.cfg.State == nil || !userCalls(j) {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, heardPatience)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.setLastChannel(ctx, j); err != nil {
			w.log.Error().Err(err).Str("call", j.key.id).Str("session", j.key.session).Msg("cannot record the last channel")
		}
	}()
	return func() {
		<-done
		cancel()
	}
}

// userCalls reports whether a user was heard through the call's channel. An
// agent's and a schedule's calls have one too, long after they were wished for.
func userCalls(j *job) bool {
	switch j.call.Action {
	case tools.ActionAgent, bus.Heartbeat, bus.Cron:
		return false
	}
	return j.invalid == nil && tools.IsToken(j.call.Channel) && j.call.Channel != tools.LastChannel
}

// setLastChannel writes only what is new: reading costs less.
func (w *Worker) setLastChannel(ctx context.Context, j *job) error {
	ofSession, err := state.LastChannel(ctx, w.cfg.State, j.key.session)
	if err != nil {
		return err
	}
	ofAll, err := state.LastChannel(ctx, w.cfg.State, "")
	if err != nil {
		return err
	}
	heard := state.Channel{Name: j.call.Channel, ChatID: j.call.ChatID}
	if ofSession.String() == heard.String() && ofAll.String() == heard.String() {
		return nil
	}
	// One that is here again was heard before what was recorded since.
	if j.delivery.Attempt > 1 && ofSession.At.After(j.delivery.Published) {
		return nil
	}
	// A name that nobody serves is a typo, or from before the channel's first
	// start. Remembered, it would mislead whatever the session says later.
	if served, err := w.bus.ChannelServed(ctx, heard.Name); err != nil || !served {
		return err
	}
	return state.SetLastChannel(ctx, w.cfg.State, j.key.session, heard)
}
