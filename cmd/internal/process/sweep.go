package process

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/tools"
)

// SweepGrace is the age up to which a sweep touches nothing. It is longer than any
// upload takes.
const SweepGrace = time.Hour

// sweepInterval is the shortest time between two sweeps; the longest is twice that.
const sweepInterval = 15 * time.Minute

// sweep removes expired artifacts until ctx is cancelled.
func sweep(ctx context.Context, store offload.Store, log zerolog.Logger) error {
	// The random part spreads the sweeps of workers that were started together.
	for tools.Sleep(ctx, sweepInterval+rand.N(sweepInterval)) == nil {
		report, err := store.Sweep(ctx, SweepGrace)
		if err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("cannot sweep artifacts")
			continue
		}
		log.Info().Int("records", report.Records).Int("blobs", report.Blobs).Int("orphans", report.Orphans).Int64("bytes", report.Bytes).Msg("artifacts swept")
	}
	return nil
}
