package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// maxSkew is how far the clocks of host and server may differ. Deadlines and expiry times come from both.
const maxSkew = 2 * time.Second

// skewOf returns how far the clock of a server is certainly ahead of this host's, if it answered at a time of its clock between
// two times of this host's.
func skewOf(before, at, after time.Time) time.Duration {
	switch {
	case at.IsZero():
	case at.After(after):
		return at.Sub(after)
	case at.Before(before):
		return at.Sub(before)
	}
	return 0
}

func server(b *bus.Bus) Server {
	nc := b.Conn()
	s := Server{URL: nc.ConnectedUrlRedacted(), Version: nc.ConnectedServerVersion(), Name: nc.ConnectedServerName(), Cluster: nc.ConnectedClusterName()}
	if rtt, err := nc.RTT(); err == nil {
		s.RTTms = float64(rtt.Microseconds()) / 1000
	}
	return s
}

// readStreams reads the streams, and which of them and of their servers are missing.
func (s *Status) readStreams(ctx context.Context, b *bus.Bus) error {
	exist, err := bus.CheckStreams(ctx, b)
	if missing, ok := errors.AsType[*bus.MissingError](err); ok {
		s.missing, err = missing.Names, nil
	}
	if errors.Is(err, bus.ErrNoLeader) {
		s.noQuorum = true
		return nil
	}
	if err != nil {
		return err
	}
	before := time.Now()
	list := b.JetStream().ListStreams(ctx)
	found, alone := []Stream{}, false
	all, ours := b.All(bus.Config{}), b.StreamName("")
	for info := range list.Info() {
		name := info.Config.Name
		if slices.ContainsFunc(found, func(v Stream) bool { return v.Name == name }) { // several servers answered
			continue
		}
		i := slices.IndexFunc(all, func(c jetstream.StreamConfig) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		if skew := skewOf(before, info.TimeStamp, time.Now()); skew.Abs() >= s.skew.Abs() {
			s.skew = skew
		}
		fill := b.FillOf(info)
		v := Stream{
			Name: name, Messages: fill.Messages, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes, Fill: fill.Ratio(), Oldest: fill.Oldest,
			MaxAgeS: info.Config.MaxAge.Seconds(), Replicas: info.Config.Replicas, Full: "drops old", fill: fill,
			expires: info.Config.AllowMsgTTL && !all[i].AllowMsgTTL,
		}
		if fill.Rejects {
			v.Full = "rejects new"
		}
		if info.Cluster != nil {
			v.Leader = info.Cluster.Leader
			alone = alone || v.Leader != "" && bus.HasLostQuorum(info.Cluster)
			if v.Leader == "" {
				s.headless = append(s.headless, name)
			}
			for _, peer := range info.Cluster.Replicas {
				// Only a leader hears of the others.
				if v.Leader != "" && (peer.Offline || peer.Active > offlineAfter) && peer.Name != v.Leader && !slices.Contains(s.offline, peer.Name) {
					s.offline = append(s.offline, peer.Name)
				}
			}
		}
		found = append(found, v)
	}
	// Not slices.SortFunc: for each type of struct, the program would be 20 kB larger.
	sort.Slice(found, func(i, j int) bool { // the streams before those of the buckets
		a, b := found[i], found[j]
		return cmp.Or(bucket(a, ours)-bucket(b, ours), strings.Compare(a.Name, b.Name)) < 0
	})
	s.Streams = found
	// The list of a cluster does not end while a stream of it has no leader.
	silent := s.Server.Cluster != "" && errors.Is(list.Err(), context.DeadlineExceeded)
	s.noQuorum = silent && len(found) == 0
	if alone && list.Err() == nil { // perhaps only since it was elected
		_, err := bus.ReadFills(ctx, b, nil)
		s.noQuorum = errors.Is(err, bus.ErrNoLeader)
	}
	for _, config := range b.All(b.Config()) { // the leaders of the others did not answer
		if (silent || list.Err() == nil) && !s.noQuorum && exist[config.Name] && !slices.ContainsFunc(found, func(v Stream) bool { return v.Name == config.Name }) {
			s.headless = append(s.headless, config.Name)
		}
	}
	slices.Sort(s.offline)
	return list.Err()
}

const (
	// offlineAfter is how long a leader has heard nothing of a server that is offline. The
	// servers exchange heartbeats each second.
	offlineAfter = 5 * time.Second
	// refusalTimeout is how long ReadRefusals waits for the answers of the streams.
	refusalTimeout = 2 * time.Second
)

// ReadRefusals returns the streams that store nothing, for example because their disk was
// full: the server answers clients nothing then, and accepts no write of the stream until it
// loads it again. So ReadRefusals asks each stream to remove the messages of a subject that no
// stream has, which changes nothing. It skips streams that the user may not change.
func ReadRefusals(ctx context.Context, b *bus.Bus) []Problem {
	ctx, cancel := context.WithTimeout(ctx, refusalTimeout)
	defer cancel()
	var (
		group    sync.WaitGroup
		mu       sync.Mutex
		problems []Problem
	)
	for _, config := range b.All(b.Config()) {
		group.Go(func() {
			err := b.WatchDenial(ctx, b.API().Subject("STREAM.PURGE."+config.Name), func(ctx context.Context) error {
				stream, err := b.JetStream().Stream(ctx, config.Name)
				if err != nil || stream.CachedInfo().Config.Sealed || stream.CachedInfo().Config.DenyPurge {
					return nil // Read reports it
				}
				return stream.Purge(ctx, jetstream.WithPurgeSubject(b.Prefix()+".none"))
			})
			if api, refused := errors.AsType[*jetstream.APIError](err); refused && api.Code != 503 { // Read reports a lost leader
				mu.Lock()
				defer mu.Unlock()
				problems = append(problems, Problem{
					Code: WritesRefused, Name: strings.TrimPrefix(config.Name, b.StreamName("")),
					Text: fmt.Sprintf("The stream %s stores nothing: %v.", config.Name, err),
				})
			}
		})
	}
	group.Wait()
	sort.Slice(problems, func(i, j int) bool { return problems[i].Name < problems[j].Name })
	return problems
}

// onlyLeader returns the server that leads all streams of a cluster that have replicas, or "".
func (s *Status) onlyLeader() string {
	leader, streams := "", 0
	for _, v := range s.Streams {
		if v.Replicas < 2 || v.Leader == "" {
			continue
		}
		if streams++; leader != "" && v.Leader != leader {
			return ""
		}
		leader = v.Leader
	}
	if streams < 3 {
		return ""
	}
	return leader
}

// bucket is 1 for the stream of a bucket.
func bucket(s Stream, prefix string) int {
	if strings.HasPrefix(s.Name, prefix) {
		return 0
	}
	return 1
}

// explains reports whether missing streams, or streams and clusters without a leader, are the
// reason for an error.
func (s *Status) explains(err error) bool {
	if len(s.missing)+len(s.headless) == 0 && !s.noQuorum {
		return false
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.Code == 404 || api.Code == 503) || bus.IsOutage(err) || errors.Is(err, jetstream.ErrBucketNotFound)
}
