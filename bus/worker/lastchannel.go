package worker

import (
	"context"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/state"
	"github.com/stevedore-bus/stevedore/tools"
)

// recordTimeout is how long the result of a call waits for the record of its
// channel.
const recordTimeout = 2 * time.Second

// recordLastChannel records the channel of a user's call while the tool runs. wait
// returns when the record is stored, so that it is there before the result. A
// failure is only logged: it affects the routing of later notifications, not the
// result.
func (w *Worker) recordLastChannel(ctx context.Context, a *attempt) (wait func()) {
	if w.cfg.State == nil || !fromUser(a) {
		return func() {}
	}
	use := state.Use{
		Session: a.Key.Session, Channel: state.Channel{Name: a.Call.Channel, ChatID: a.Call.ChatID},
		// The session of the messages that users write in a chat is named after it.
		OfChat: a.Key.Session == tools.TokenOf(a.Call.Channel+"-"+a.Call.ChatID),
	}
	if a.Attempt > 1 {
		use.Before = a.Published
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Skip a channel that has no consumer: its name is a typo, or the channel was
		// never started. Recording it would misroute the session's later notifications.
		err := state.Record(ctx, w.cfg.State, use, func() (bool, error) {
			_, exists, err := w.bus.ConsumerInfo(ctx, w.bus.ChannelConsumer(use.Channel.Name))
			return exists, err
		})
		if err != nil {
			w.log.Error().Err(err).Str("call", a.Key.ID).Str("session", a.Key.Session).Msg("cannot record the last channel")
		}
	}()
	return func() {
		<-done
		cancel()
	}
}

// fromUser reports whether a user caused the call through its channel. The calls
// of agents and schedules name a channel too, but no user sent a message then.
func fromUser(a *attempt) bool {
	if a.Call.Action == tools.ActionAgent || bus.IsScheduled(a.Call.Action) {
		return false
	}
	return a.Invalid == nil && tools.IsToken(a.Call.Channel) && a.Call.Channel != tools.LastChannel
}
