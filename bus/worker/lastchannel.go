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
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.setLastChannel(ctx, a); err != nil {
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

// setLastChannel writes the record only if it changes, because a read costs less.
func (w *Worker) setLastChannel(ctx context.Context, a *attempt) error {
	ofSession, err := state.LastChannel(ctx, w.cfg.State, a.key.Session)
	if err != nil {
		return err
	}
	ofAll, err := state.LastChannel(ctx, w.cfg.State, "")
	if err != nil {
		return err
	}
	channel := state.Channel{Name: a.call.Channel, ChatID: a.call.ChatID}
	owner, err := state.LastSession(ctx, w.cfg.State, channel)
	if err != nil {
		return err
	}
	// A client may name any chat in the body of a call. It cannot take one from the session
	// that has it; only the session of the messages that users write in a chat can.
	isInbox := a.key.Session == tools.TokenOf(channel.Name+"-"+channel.ChatID)
	if owner != "" && owner != a.key.Session && !isInbox {
		return nil
	}
	shared := isInbox
	if !isInbox {
		if shared, err = w.mayShare(ctx, a.key.Session, channel, ofAll); err != nil {
			return err
		}
	}
	if ofSession.String() == channel.String() && (!shared || ofAll.String() == channel.String()) && owner == a.key.Session {
		return nil
	}
	// A redelivered call is older than a channel that was recorded since.
	if a.delivery.Attempt > 1 && ofSession.At.After(a.delivery.Published) {
		return nil
	}
	// Skip a channel that has no consumer: its name is a typo, or the channel was
	// never started. Recording it would misroute the session's later notifications.
	if _, exists, err := w.bus.ConsumerInfo(ctx, w.bus.ChannelConsumer(channel.Name)); err != nil || !exists {
		return err
	}
	if shared {
		return state.SetLastChannel(ctx, w.cfg.State, a.key.Session, channel)
	}
	return state.SetSessionChannel(ctx, w.cfg.State, a.key.Session, channel)
}

// mayShare reports whether a session may record its channel for all sessions: the last
// channel of all, and the channel without a chat, are its own or nobody's.
func (w *Worker) mayShare(ctx context.Context, session string, channel, ofAll state.Channel) (bool, error) {
	for _, shared := range []state.Channel{{Name: channel.Name}, ofAll} {
		if shared.IsZero() {
			continue
		}
		if owner, err := state.LastSession(ctx, w.cfg.State, shared); err != nil || owner != "" && owner != session {
			return false, err
		}
	}
	return true, nil
}
