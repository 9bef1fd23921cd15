package offload

import (
	"context"
	"errors"
	"time"
)

const (
	// fullGrace is the grace of a sweep of a full store: longer than a Put takes
	// from its last byte to its record.
	fullGrace = 10 * time.Minute
	// fullInterval is the least time between two such sweeps.
	fullInterval = time.Minute
)

// sweeper sweeps a full store.
type sweeper struct {
	turn chan struct{} // holds a value while a Put may sweep
	next time.Time     // no sweep before this time; the turn guards it
}

// sweepIfFull calls put. If the store is full, it sweeps and calls put again:
// expired artifacts must not keep new ones out.
func (o *Offloader) sweepIfFull(ctx context.Context, put func() (Record, error)) (Record, error) {
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

// sweep sweeps the store. If another Put is sweeping or swept within fullInterval,
// it waits for that one and returns no report.
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
	s.next = now.Add(fullInterval)
	report, err := store.Sweep(ctx, fullGrace)
	return &report, err
}
