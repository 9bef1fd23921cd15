package retention

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/bus/task"
)

// conversation is the log of a session.
type conversation struct {
	subject string
	size    int64 // of the entries that were read, in bytes
	last    uint64
	lastAt  time.Time
}

// expireSessions removes the conversations that were not used for Config.SessionsTTL.
func (k *Keeper) expireSessions(ctx context.Context) error {
	l, err := k.acquire(ctx, bus.Sessions)
	if err != nil || l == nil {
		return err
	}
	const all = 1 << 62
	return errors.Join(k.removeSessions(ctx, l, k.cfg.SessionsTTL, all), l.release(ctx))
}

// removeSessions removes the conversations that were used longest ago, whole, until it has
// freed so many bytes. It keeps those with an entry younger than age, because their users may
// go on, and those with work in progress.
func (k *Keeper) removeSessions(ctx context.Context, l *lease, age time.Duration, toFree int64) error {
	stream, err := k.bus.UsedStream(ctx, bus.Sessions)
	if stream == nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	cutoff := info.TimeStamp.Add(-age)
	if info.State.FirstTime.After(cutoff) {
		return nil
	}
	old, err := k.oldConversations(ctx, info.Config.Name, cutoff)
	if err != nil || len(old) == 0 {
		return err
	}
	busy, err := k.workInProgress(ctx)
	if err != nil {
		return err
	}
	removed := 0
	for _, c := range old {
		if toFree <= 0 {
			break
		}
		session := k.bus.Split(c.subject)[1]
		if bus.CheckSubject(c.subject) != nil || busy.sessions[session] { // a purge with a wildcard removes others
			continue
		}
		switch busy, err := k.isBusy(ctx, session); {
		case err != nil:
			return err
		case busy:
			continue
		}
		if err := l.removing(ctx, c.lastAt); err != nil {
			return err
		}
		// A later entry stays: then the session is in use again.
		if err := k.bus.Purge(ctx, bus.Sessions, c.subject, c.last+1); err != nil {
			return err
		}
		toFree -= c.size
		removed++
	}
	if removed > 0 {
		k.cfg.Log.Info().Int("conversations", removed).Stringer("unused_for", age).Msg("removed the conversations that were used longest ago")
	}
	return nil
}

// isBusy reports whether a session has work in progress now. While many others are removed, it may have got some.
func (k *Keeper) isBusy(ctx context.Context, session string) (bool, error) {
	now, err := task.ServerTime(ctx, k.bus)
	if err != nil {
		return false, err
	}
	call, err := k.bus.First(ctx, bus.Calls, k.bus.CallsOf(session, "*"), 0)
	if err != nil || call.Sequence > 0 {
		return true, err
	}
	moving, err := task.ListMoving(ctx, k.bus, session, now)
	return len(moving) > 0, err
}

// oldConversations returns the conversations whose last entry was stored before a time,
// the one that was used longest ago first.
func (k *Keeper) oldConversations(ctx context.Context, stream string, before time.Time) ([]conversation, error) {
	found := map[string]*conversation{}
	for m, err := range k.bus.API().Messages(ctx, stream, jsapi.Get{NextBySubject: ">", Sequence: 1, MaxBytes: 4 << 20}) {
		if err != nil {
			return nil, err
		}
		if !m.Time.Before(before) {
			break
		}
		c := found[m.Subject]
		if c == nil {
			c = &conversation{subject: m.Subject}
			found[m.Subject] = c
		}
		c.size += recordOverhead + int64(len(m.Subject)+len(m.Data))
		c.last, c.lastAt = m.Sequence, m.Time
	}
	var old []conversation
	for _, c := range found {
		last, err := k.bus.API().GetFromLeader(ctx, stream, jsapi.Get{LastBySubject: c.subject})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if last.Sequence == c.last {
			old = append(old, *c)
		}
	}
	slices.SortFunc(old, func(a, b conversation) int { return cmp.Compare(a.last, b.last) })
	return old, nil
}
