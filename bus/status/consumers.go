package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// maxSubjects is the largest number of subjects of a stream that are listed.
	maxSubjects = 5000
	// sampled and sampledBytes limit the messages of a larger stream that are read at each
	// end.
	sampled, sampledBytes = 500, 4 << 20
	// maxUnserved limits the queues without a consumer in a status.
	maxUnserved = 100
)

// Unserved returns the queues whose calls wait although no worker ever served them, so that
// they have no consumer, with the number of these calls. served reports whether a queue
// has a consumer. If a stream has more than maxSubjects subjects, Unserved looks only at
// its oldest and newest messages, and the numbers are lower bounds.
func Unserved(ctx context.Context, b *bus.Bus, served func(queue string) bool) (map[string]uint64, error) {
	waiting := map[string]uint64{}
	count := func(subject string, n uint64) {
		tokens := b.Split(subject)
		if len(tokens) >= 2 && tools.IsToken(tokens[1]) && !served(tokens[1]) {
			waiting[tokens[1]] += n
		}
	}
	if err := countSubjects(ctx, b, bus.Calls, count); err != nil {
		return nil, fmt.Errorf("queues of %s: %w", b.StreamName(bus.Calls), err)
	}
	names := slices.SortedFunc(maps.Keys(waiting), func(x, y string) int {
		return cmp.Or(cmp.Compare(waiting[y], waiting[x]), cmp.Compare(x, y))
	})
	for _, name := range names[min(len(names), maxUnserved):] {
		delete(waiting, name)
	}
	return waiting, nil
}

// countSubjects calls count with the subjects of a stream and their numbers of messages.
func countSubjects(ctx context.Context, b *bus.Bus, stream string, count func(subject string, n uint64)) error {
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	if info.State.NumSubjects <= maxSubjects {
		if info, err = s.Info(ctx, jetstream.WithSubjectFilter(">")); err != nil {
			return err
		}
		for subject, n := range info.State.Subjects {
			count(subject, n)
		}
		return nil
	}
	seen := map[uint64]bool{}
	for _, back := range []bool{false, true} {
		size := 0
		for m, err := range b.Read(ctx, stream, bus.Query{Limit: sampled, Back: back}) {
			if err != nil {
				return err
			}
			if !seen[m.Sequence] {
				seen[m.Sequence] = true
				count(m.Subject, 1)
			}
			if size += len(m.Body); size > sampledBytes {
				break
			}
		}
	}
	return nil
}

// Consumers returns the consumers of a stream whose names begin with the name of like,
// by the rest of their names: those of the queues that workers serve or have served are like
// b.WorkerConsumer(""), those of the channels like b.ChannelConsumer("").
func Consumers(ctx context.Context, b *bus.Bus, like bus.Consumer) (map[string]*jetstream.ConsumerInfo, error) {
	s, err := b.UsedStream(ctx, like.Stream)
	if s == nil {
		return nil, err
	}
	found := map[string]*jetstream.ConsumerInfo{}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if name, ok := strings.CutPrefix(info.Name, like.Name); ok {
			found[name] = info
		}
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list the consumers of %s: %w", b.StreamName(like.Stream), err)
	}
	return found, nil
}
