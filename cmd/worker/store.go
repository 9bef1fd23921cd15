package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/cmd/internal/cli"
	"github.com/stevedore-bus/stevedore/offload"
)

// openStore opens the artifact store that --store names.
func (o *processOptions) openStore(ctx context.Context, b *bus.Bus) (offload.Store, func() error, error) {
	cfg := offload.StoreConfig{TTL: o.ttl, Quota: o.quota}
	kind, where, _ := strings.Cut(o.store, ":")
	switch kind {
	case "object":
		if where == "" {
			where = b.BucketName(bus.BlobsBucket)
		}
		store, err := offload.OpenObject(ctx, b.JetStream(), offload.ObjectConfig{
			StoreConfig: cfg, Bucket: where, Records: b.BucketName(bus.ArtifactsBucket), Replicas: o.connection.Replicas,
		})
		return store, func() error { return nil }, err
	case "disk":
		store, err := offload.OpenDisk(o.diskDir(where), cfg)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	}
	return nil, nil, cli.Exit(cli.ExitUsage, "--store %q: want object:BUCKET or disk:DIR", o.store)
}

// diskDir is where artifacts are on disk.
func (o *processOptions) diskDir(where string) string {
	if where == "" {
		return filepath.Join(o.connection.Data, "artifacts")
	}
	return where
}

const (
	sweepInterval = 15 * time.Minute // at least; at most twice that
	sweepGrace    = time.Hour        // longer than any Put takes
)

// sweep removes what expired, now and again.
func sweep(ctx context.Context, store offload.Store, log zerolog.Logger) error {
	// Not in step with the other workers, which were started together.
	ticker := time.NewTicker(sweepInterval + rand.N(sweepInterval))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		report, err := store.Sweep(ctx, sweepGrace)
		if err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("cannot sweep artifacts")
			continue
		}
		log.Info().Int("records", report.Records).Int("blobs", report.Blobs).Int("orphans", report.Orphans).Int64("bytes", report.Bytes).Msg("artifacts swept")
	}
}
