package bus

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

const (
	// stuckLeases is for how many leases a message must not be settled before a process
	// looks for settled ones behind it. If it finds none, it doubles the time, up to
	// maxStuckLeases.
	stuckLeases, maxStuckLeases = 2, 32
	// maxFound limits the messages that wait to be deleted.
	maxFound = 100_000
)

// findBehind looks for messages that ended behind one that is not settled for long, until
// ctx ends. The processes that settled them remove them, but some may have died before that,
// and the server does not tell which messages were acknowledged. hasEnded does.
//
// One process looks, and tells the others.
func (t *trimmer) findBehind(ctx context.Context, hasEnded func(context.Context, *Delivery) (bool, error)) {
	lease := t.bus.cfg.Lease
	subject := t.subject() + ".behind"
	purged := make(chan struct{}, 1)
	sub, err := t.bus.nc.Subscribe(subject, func(msg *nats.Msg) {
		if msg.Header.Get(trimmerHeader) != t.id() {
			select {
			case purged <- struct{}{}:
			default:
			}
		}
	})
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	}
	var (
		floor  uint64
		since  = time.Now() // since when the floor has not changed, and no process looked
		leases = stuckLeases
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-purged:
			since = time.Now()
			continue
		case <-time.After(lease/2 + rand.N(lease/2)):
		}
		info, ok, err := t.bus.ConsumerInfo(ctx, t.consumer)
		if !ok || err != nil {
			continue // round warns about it
		}
		switch f := info.AckFloor.Stream; {
		case f != floor:
			floor, since, leases = f, time.Now(), stuckLeases
			continue
		case info.Delivered.Stream <= floor+1, time.Since(since) < time.Duration(leases)*lease:
			continue
		}
		var (
			telling sync.Mutex // messages are checked at the same time
			toldAt  time.Time
		)
		found, err := t.findEnded(ctx, floor+1, info.Delivered.Stream, func(ctx context.Context, d *Delivery) (bool, error) {
			telling.Lock()
			if time.Since(toldAt) >= lease {
				toldAt = time.Now()
				_ = t.bus.nc.PublishMsg(&nats.Msg{Subject: subject, Header: nats.Header{trimmerHeader: {t.id()}}}) // only a hint
			}
			telling.Unlock()
			return hasEnded(ctx, d)
		})
		if err != nil && ctx.Err() == nil {
			t.bus.log.Warn().Err(err).Str("consumer", t.consumer.Name).Msg("cannot look for settled messages behind one that is not settled")
		}
		if since = time.Now(); found > 0 {
			leases = stuckLeases
			t.bus.log.Info().Str("consumer", t.consumer.Name).Int("messages", found).Msg("removing messages that a process settled but did not remove")
		} else {
			leases = min(2*leases, maxStuckLeases)
		}
	}
}

// findEnded gives the trimmer the messages between two sequences that have ended, unless
// it has them.
func (t *trimmer) findEnded(ctx context.Context, first, last uint64, hasEnded func(context.Context, *Delivery) (bool, error)) (found int, err error) {
	known := t.known()
	var page []*Delivery
	check := func() error {
		n, err := t.settleEnded(ctx, page, hasEnded)
		found, page = found+n, page[:0]
		return err
	}
	get := jsapi.Get{NextBySubject: t.consumer.Trim, Sequence: first, MaxBytes: scanBytes}
	for m, err := range t.bus.api.Messages(ctx, t.bus.StreamName(t.consumer.Stream), get) {
		if err != nil {
			return found, err
		}
		if m.Sequence > last {
			break
		}
		if known[m.Sequence] {
			continue
		}
		page = append(page, storedDelivery(m))
		if len(page) == scanBatch {
			if err := check(); err != nil {
				return found, err
			}
		}
	}
	err = check()
	return found, err
}

// settleEnded gives the trimmer those messages that have ended.
func (t *trimmer) settleEnded(ctx context.Context, page []*Delivery, hasEnded func(context.Context, *Delivery) (bool, error)) (found int, err error) {
	for t.forget(0) > maxFound && ctx.Err() == nil {
		time.Sleep(trimInterval) // until some are deleted
	}
	var (
		group errgroup.Group
		count atomic.Int64
	)
	group.SetLimit(deletesAtOnce)
	for _, d := range page {
		group.Go(func() error {
			ended, err := hasEnded(ctx, d)
			if err == nil && ended {
				count.Add(1)
				t.settled(d.Sequence, len(d.Body))
			}
			return err
		})
	}
	err = group.Wait()
	return int(count.Load()), err
}

// known returns the sequences of the messages that the trimmer will remove.
func (t *trimmer) known() map[uint64]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[uint64]bool{}
	for _, list := range [][]settledMessage{t.recent, t.old} {
		for _, m := range list {
			known[m.sequence] = true
		}
	}
	return known
}

// storedDelivery makes a delivery of a stored message, to read it. It cannot be settled.
func storedDelivery(m jsapi.Message) *Delivery {
	return &Delivery{
		Subject: m.Subject, Body: m.Data, Attempt: 1, Redelivered: true, Published: m.Time, Sequence: m.Sequence,
		msg: &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data},
	}
}
