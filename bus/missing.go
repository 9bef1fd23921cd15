package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// AlteredError means that somebody has changed or made a stream, so that it does not store what is
// published.
type AlteredError struct {
	Stream string   // the full name
	Lacks  []string // subjects; none if the stream is sealed
}

func (e *AlteredError) Error() string {
	if len(e.Lacks) == 0 {
		return "stream " + e.Stream + " is sealed: it stores nothing any more"
	}
	return "stream " + e.Stream + " does not have the subjects " + strings.Join(e.Lacks, ", ") + ": what is published there is not stored"
}

// altered returns what keeps a stream from storing messages, or nil. One that is not of All needs no subjects.
func (s Subjects) altered(have jetstream.StreamConfig) *AlteredError {
	e := &AlteredError{Stream: have.Name}
	if have.Sealed {
		return e
	}
	all := s.All(Config{})
	if i := slices.IndexFunc(all, func(want jetstream.StreamConfig) bool { return want.Name == have.Name }); i >= 0 {
		e.Lacks = slices.DeleteFunc(all[i].Subjects, func(subject string) bool {
			return slices.ContainsFunc(have.Subjects, func(filter string) bool { return coversAll(filter, []string{subject}) })
		})
	}
	if len(e.Lacks) == 0 {
		return nil
	}
	return e
}

// ErrNoLeader means that a cluster accepts nothing, because it has no leader.
var ErrNoLeader = errors.New("the cluster has no leader: a server failed just now, or fewer than half of its servers answer")

// leaderTimeout is how long askLeaders waits for the leaders of a cluster. Clients of a server that
// knows no leader get no answer.
const leaderTimeout = 2 * time.Second

// askLeaders calls ask, which asks the leaders of streams. Its error is ErrNoLeader if those of a
// cluster do not answer.
func askLeaders(ctx context.Context, b *Bus, ask func(context.Context) error) error {
	clustered := b.nc.ConnectedClusterName() != ""
	if clustered {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, leaderTimeout)
		defer cancel()
	}
	err := ask(ctx)
	api, ok := errors.AsType[*jetstream.APIError](err)
	if ok && api.Code == 503 || clustered && errors.Is(err, context.DeadlineExceeded) {
		return ErrNoLeader
	}
	return err
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
