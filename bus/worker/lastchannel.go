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
		Session: a.key.Session, Channel: state.Channel{Name: a.call.Channel, ChatID: a.call.ChatID},
		// The session of the messages that users write in a chat is named after it.
		OfChat: a.key.Session == tools.TokenOf(a.call.Channel+"-"+a.call.ChatID),
	}
	if a.delivery.Attempt > 1 {
		use.Before = a.delivery.Published
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
			w.log.Error().Err(err).Str("call", a.key.ID).Str("session", a.key.Session).Msg("cannot record the last channel")
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
	switch a.call.Action {
	case tools.ActionAgent, bus.Heartbeat, bus.Cron:
		return false
	}
	return a.invalid == nil && tools.IsToken(a.call.Channel) && a.call.Channel != tools.LastChannel
}
