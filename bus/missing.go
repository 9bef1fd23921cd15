package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// MissingError names the streams that do not exist. A bucket has the name of its stream.
type MissingError struct{ Names []string }

func (e *MissingError) Error() string {
	return "streams and buckets that do not exist: " + strings.Join(e.Names, ", ")
}

// Missing returns the names of the streams, and of those of the buckets, that do not exist,
// without those that were never used.
func (b *Bus) Missing(ctx context.Context, exists func(name string) bool) (missing []string) {
	for _, config := range b.All(Config{}) {
		if !exists(config.Name) && !b.IsUnused(ctx, config.Name, jetstream.ErrStreamNotFound) {
			missing = append(missing, config.Name)
		}
	}
	return missing
}

// CheckStreams returns the names of the streams that exist, a MissingError if a stream or bucket
// does not exist, and ErrNoLeader if the cluster does not say. A user who may not list them gets
// nil.
func CheckStreams(ctx context.Context, b *Bus) (exist map[string]bool, err error) {
	have := map[string]bool{}
	err = askLeaders(ctx, b, func(ctx context.Context) error {
		return b.WatchDenial(ctx, b.api.Subject("STREAM.NAMES"), func(ctx context.Context) error {
			names := b.js.StreamNames(ctx)
			for name := range names.Name() {
				have[name] = true
			}
			return names.Err()
		})
	})
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return nil, nil
	case errors.Is(err, ErrNoLeader):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("list the streams: %w", err)
	}
	if missing := b.Missing(ctx, func(name string) bool { return have[name] }); len(missing) > 0 {
		return have, &MissingError{missing}
	}
	return have, nil
}
