// Package admin creates, checks, copies and restores the streams and buckets of a bus.
//
// Provision (provision.go) makes them as bus.Subjects describes them, and compares those that
// exist. The operator decides about every setting that no guarantee depends on, and, unless
// they are configured, about sizes, ages and replicas (limits.go). Move (steps.go) moves those
// of an earlier format. Backup and Restore (backup.go) copy
// them with their consumers, in the file format of "nats stream backup".
package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Change says which settings of existing streams and buckets Provision changes.
type Change int

const (
	Nothing    Change = iota
	Limits            // the configured sizes and ages of streams
	Everything        // all settings that differ
)

// Provisioned is the result of Provision.
type Provisioned struct {
	// Created lists the created streams and buckets, by name.
	Created []string
	// Unused lists those that are created at their first use.
	Unused []string
	// Moved lists the steps that moved streams to the formats of this program.
	Moved []Step
	// Differences lists the settings that differ, except those that were changed as Limits.
	Differences []bus.Difference
	// Permanent is about a stream with a change that the server does not take back, such as a seal; nil if there is none.
	Permanent *bus.AlteredError
}

// Provision creates the streams and buckets that do not exist, and compares the others. A
// bucket has the name of its stream. Without a configured number of replicas, new ones get as
// many as those that exist. It leaves out what is created at its first use: see
// bus.Config.OnDemand. With Everything, it first moves those of an earlier format: see Step. If some
// have another format otherwise, the error is a *jsapi.FormatError and nothing was changed. After another error, the result contains what was
// done before. The caller needs the permission to look up streams, and to create the missing
// ones.
func Provision(ctx context.Context, b *bus.Bus, change Change) (done Provisioned, err error) {
	cfg := b.Config()
	if err := checkStreamBytes(b); err != nil {
		return done, err
	}
	var found []*jetstream.StreamInfo
	if done.Moved, found, err = checkFormats(ctx, b, change == Everything); err != nil {
		return done, err
	}
	all := b.All(cfg)
	calls, replicas, exists := all[0], 1, map[string]bool{}
	for _, info := range found {
		if exists[info.Config.Name] = true; info.Config.Name == calls.Name {
			calls = info.Config
		}
		replicas = max(replicas, info.Config.Replicas)
		if altered := b.FillOf(info).Altered; altered != nil && altered.Permanent != "" {
			done.Permanent = altered
		}
	}
	// A call is accepted when all that its client needs exists. The last one, the bucket of the blobs, gets the rest of the space.
	for _, want := range slices.Insert(all[1:], len(all)-2, all[0]) {
		if !exists[want.Name] && b.MayBeUnused(want.Name, calls) {
			done.Unused = append(done.Unused, want.Name)
			continue
		}
		if cfg.Replicas <= 0 {
			want.Replicas = replicas
		}
		created, diffs, err := provisionStream(ctx, b, want, change)
		if err != nil {
			return done, fmt.Errorf("provision stream %s: %w", want.Name, err)
		}
		if created {
			done.Created = append(done.Created, want.Name)
		}
		done.Differences = append(done.Differences, diffs...)
	}
	return done, nil
}

// checkFormats looks up the streams and buckets that exist, before Provision changes anything. With update, it moves
// them to the formats of this program.
func checkFormats(ctx context.Context, b *bus.Bus, update bool) (moved []Step, found []*jetstream.StreamInfo, err error) {
	found, err = b.Formats(ctx)
	if _, other := errors.AsType[*jsapi.FormatError](err); other && update {
		moved, err = Move(ctx, b, "", func(Step) {})
	}
	return moved, found, err
}

func provisionStream(ctx context.Context, b *bus.Bus, want jetstream.StreamConfig, change Change) (created bool, diffs []bus.Difference, err error) {
	stream, err := b.LookUp(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = createStream(ctx, b, want)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err == nil, nil, err
		}
		stream, err = b.LookUp(ctx, want.Name) // another process created it
	}
	if err != nil {
		return false, nil, err
	}
	config := stream.CachedInfo().Config
	keepLimits(b, &want, config)
	switch change {
	case Everything:
		if diffs = bus.Align(&config, want); len(diffs) > 0 {
			err = updateStream(ctx, b, config)
		}
		return false, diffs, err
	case Limits:
		if config.MaxBytes != want.MaxBytes || config.MaxAge != want.MaxAge {
			config.MaxBytes, config.MaxAge, config.Duplicates = want.MaxBytes, want.MaxAge, min(config.Duplicates, want.Duplicates)
			if err := updateStream(ctx, b, config); err != nil && !(isBlobs(b, want.Name) && jsapi.IsNoSpace(err)) {
				return false, nil, err
			}
		}
	}
	return false, bus.Align(&config, want), nil
}

// updateStream changes a stream. If the server has no space for a larger one, the bucket of the blobs,
// which got what the streams left, makes room.
func updateStream(ctx context.Context, b *bus.Bus, config jetstream.StreamConfig) error {
	update := func(config jetstream.StreamConfig) error {
		return bus.WithChangeTimeout(ctx, func(ctx context.Context) error {
			_, err := b.JetStream().UpdateStream(ctx, config)
			return err
		})
	}
	for {
		err := update(config)
		if !jsapi.IsNoSpace(err) || isBlobs(b, config.Name) {
			return err
		}
		blobs, lookup := b.LookUp(ctx, "OBJ_"+b.BucketName(bus.BlobsBucket))
		if lookup != nil || blobs.CachedInfo().Config.MaxBytes/2 < bus.MinMaxBytes {
			return &SpaceError{config.Name, config.MaxBytes, err}
		}
		smaller := blobs.CachedInfo().Config
		smaller.MaxBytes /= 2
		if err := update(smaller); jsapi.IsNoSpace(err) {
			return &SpaceError{config.Name, config.MaxBytes, err}
		} else if err != nil {
			return err
		}
	}
}

const (
	// peersTimeout is how long createStream waits for the servers of a cluster. The
	// servers of a cluster that starts learn of each other within some seconds.
	peersTimeout  = 15 * time.Second
	peersInterval = 250 * time.Millisecond
)

func exists(ctx context.Context, b *bus.Bus, stream string) bool {
	_, err := b.LookUp(ctx, stream)
	return err == nil
}

// SpaceError means that the server has no space for a stream of the size.
type SpaceError struct {
	Stream string
	Bytes  int64
	Err    error
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("stream %s reserves %s, which the server does not have: %v", e.Stream, bus.FormatBytes(e.Bytes), e.Err)
}

func (e *SpaceError) Unwrap() error { return e.Err }

// createStream creates a stream. Without a configured size, the stream gets the
// default size, or less if the server does not have as much space.
func createStream(ctx context.Context, b *bus.Bus, want jetstream.StreamConfig) error {
	waitUntil := time.Now().Add(peersTimeout)
	var noPeers error
	for {
		err := bus.WithChangeTimeout(ctx, func(ctx context.Context) error {
			_, err := b.JetStream().CreateStream(ctx, want)
			return err
		})
		api, ok := errors.AsType[*jetstream.APIError](err)
		switch {
		case ok && api.ErrorCode == jsapi.ErrNoPeers:
			noPeers = fmt.Errorf("%w: a stream with %d replicas needs as many servers with JetStream online", err, want.Replicas)
			select {
			case <-time.After(peersInterval):
			case <-ctx.Done():
			}
			if ctx.Err() != nil || time.Now().After(waitUntil) {
				return noPeers
			}
			continue
		case ctx.Err() != nil && noPeers != nil: // the caller gave up while the server was asked again
			return noPeers
		case !jsapi.IsNoSpace(err):
			return err
		case want.MaxBytes <= 0: // it reserves no space
			return err
		case isBlobs(b, want.Name) && exists(ctx, b, want.Name): // the answer to its creation was lost
			return jetstream.ErrStreamNameAlreadyInUse
		case isBlobs(b, want.Name) && want.MaxBytes/2 < bus.MinMaxBytes: // no limit is better than no bucket
			want.MaxBytes = -1
			continue
		case isBlobs(b, want.Name):
		case hasSize(b, want.Name) || want.MaxBytes/2 < bus.MinMaxBytes:
			return &SpaceError{want.Name, want.MaxBytes, err}
		}
		want.MaxBytes /= 2
	}
}
