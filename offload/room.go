package offload

import (
	"context"
	"errors"
	"time"
)

const (
	// roomGrace is the grace of a sweep that makes room: longer than any Put
	// takes from its last byte to its record.
	roomGrace = 10 * time.Minute
	// roomInterval is the least time between two such sweeps. A full store
	// gains nothing by more.
	roomInterval = time.Minute
)

// sweeper sweeps a store that is full.
type sweeper struct {
	turn chan struct{} // who puts something in may sweep
	next time.Time     // no sweep before; of whoever has the turn
}

func newSweeper() *sweeper { return &sweeper{turn: make(chan struct{}, 1)} }

// withRoom does put, and does it again after a sweep if the store is full: what
// expired and is still there must not keep new results out.
func (o *Offloader) withRoom(ctx context.Context, put func() (Record, error)) (Record, error) {
	rec, err := put()
	if !errors.Is(err, ErrQuota) {
		return rec, err
	}
	report, sweepErr := o.sweeper.sweep(ctx, o.store)
	if sweepErr != nil {
		o.cfg.Log.Warn().Err(sweepErr).Msg("the artifact store is full and cannot be swept")
		return rec, err
	}
	if report != nil {
		o.cfg.Log.Info().Int("records", report.Records).Int("blobs", report.Blobs).Int64("bytes", report.Bytes).Msg("full artifact store swept")
	}
	return put()
}

// sweep sweeps the store, unless somebody did a moment ago or is doing it: that is waited
// for. The report is nil then.
func (s *sweeper) sweep(ctx context.Context, store Store) (*SweepReport, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	now := time.Now()
	if now.Before(s.next) {
		return nil, nil
	}
	s.next = now.Add(roomInterval)
	report, err := store.Sweep(ctx, roomGrace)
	return &report, err
}
