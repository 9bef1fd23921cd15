package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoLeader means that a cluster, or a stream of it, accepts nothing, because it has no leader.
var ErrNoLeader = errors.New("the cluster or a stream has no leader: a server failed just now, or too few of those that store it answer")

const (
	// leaderTimeout is how long askLeaders waits for the leaders of a cluster. Clients of a server that
	// knows no leader get no answer.
	leaderTimeout = 2 * time.Second
	// silentAfter is how long the leader of a stream has heard nothing of a server that may be down.
	// The servers exchange heartbeats each second. The leader itself notices after 10 s and more that it
	// is alone, and until then answers as if it accepted messages.
	silentAfter = 2 * time.Second
)

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

// HasLostQuorum reports whether the leader of a stream is without half of its servers.
func HasLostQuorum(c *jetstream.ClusterInfo) bool {
	if c == nil || len(c.Replicas) == 0 {
		return false
	}
	heard := 1
	for _, peer := range c.Replicas {
		if !peer.Offline && peer.Active < silentAfter {
			heard++
		}
	}
	return 2*heard <= len(c.Replicas)+1
}
