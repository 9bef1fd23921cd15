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

// AlteredError means that somebody has changed or made a stream, so that it does not store or keep what is
// published.
type AlteredError struct {
	Stream string   // the full name
	Lacks  []string // subjects
	Limits []string // that refuse or remove messages, such as max_age 3s
	Sealed bool
}

func (e *AlteredError) Error() string {
	switch {
	case e.Sealed:
		return "stream " + e.Stream + " is sealed: it stores nothing any more"
	case len(e.Lacks) == 0:
		return "stream " + e.Stream + " has limits that refuse or remove what must stay: " + strings.Join(e.Limits, ", ")
	}
	return "stream " + e.Stream + " does not have the subjects " + strings.Join(e.Lacks, ", ") + ": what is published there is not stored"
}

// altered returns what keeps a stream from storing messages, or nil. One that is not of All needs nothing.
func (s Subjects) altered(have jetstream.StreamConfig) *AlteredError {
	e := &AlteredError{Stream: have.Name, Sealed: have.Sealed}
	if have.Sealed {
		return e
	}
	all := s.All(Config{})
	if i := slices.IndexFunc(all, func(want jetstream.StreamConfig) bool { return want.Name == have.Name }); i >= 0 {
		e.Lacks = slices.DeleteFunc(all[i].Subjects, func(subject string) bool {
			return slices.ContainsFunc(have.Subjects, func(filter string) bool { return coversAll(filter, []string{subject}) })
		})
		limit := func(name string, have, want int64, text any) {
			if have > 0 && (want <= 0 || have < want) {
				e.Limits = append(e.Limits, fmt.Sprint(name, " ", text))
			}
		}
		limit("max_msgs", have.MaxMsgs, 0, have.MaxMsgs)
		limit("max_msg_size", int64(have.MaxMsgSize), 0, have.MaxMsgSize)
		limit("max_msgs_per_subject", have.MaxMsgsPerSubject, all[i].MaxMsgsPerSubject, have.MaxMsgsPerSubject)
		if all[i].MaxAge == 0 { // otherwise it is a setting
			limit("max_age", int64(have.MaxAge), 0, have.MaxAge)
		}
	}
	if len(e.Lacks)+len(e.Limits) == 0 {
		return nil
	}
	return e
}

// ErrNoLeader means that a cluster, or a stream of it, accepts nothing, because it has no leader.
var ErrNoLeader = errors.New("the cluster or a stream has no leader: a server failed just now, or too few of those that store it answer")

// isOffline reports whether a cluster knows that all servers which store a stream or consumer are down.
func isOffline(err error) bool {
	const streamOffline, consumerOffline = 10118, 10119 // server/errors.json of nats-server; nats.go has no names for them
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == streamOffline || api.ErrorCode == consumerOffline)
}

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
	if ok && api.Code == 503 || isOffline(err) || clustered && errors.Is(err, context.DeadlineExceeded) {
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
