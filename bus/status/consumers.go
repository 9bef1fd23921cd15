package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	// bridge is the kind of the channels whose worker answers their program, which consumes.
	bridge = "bridge"
	// repeatedly is how many deliveries of each notification without an acknowledgement are too many. One or two are due
	// to programs that ended.
	repeatedly = 4
	// takesWithin is how long a program that asks for one notification after the other may send one.
	takesWithin = time.Minute
)

// Queues returns the consumers of the queues that workers serve or have served. A queue whose calls wait
// although no worker ever served it has no consumer: its info has only NumPending. If the stream
// has more than maxSubjects subjects, only its oldest and newest messages are looked at for these queues,
// and the numbers are lower bounds. After an error, the queues that could be read are returned too.
func Queues(ctx context.Context, b *bus.Bus) (map[string]*jetstream.ConsumerInfo, error) {
	queues, err := Consumers(ctx, b, b.WorkerConsumer(""))
	if err != nil {
		return nil, err
	}
	waiting := map[string]uint64{}
	err = countSubjects(ctx, b, bus.Calls, func(subject string, n uint64) {
		if tokens := b.Split(subject); len(tokens) >= 2 && tools.IsToken(tokens[1]) && queues[tokens[1]] == nil {
			waiting[tokens[1]] += n
		}
	})
	if err != nil {
		return queues, fmt.Errorf("queues of %s: %w", b.StreamName(bus.Calls), err)
	}
	names := slices.SortedFunc(maps.Keys(waiting), func(x, y string) int {
		return cmp.Or(cmp.Compare(waiting[y], waiting[x]), cmp.Compare(x, y))
	})
	for _, name := range names[:min(len(names), maxUnserved)] {
		queues[name] = &jetstream.ConsumerInfo{NumPending: waiting[name]}
	}
	return queues, nil
}

// countSubjects calls count with the subjects of a stream and their numbers of messages.
func countSubjects(ctx context.Context, b *bus.Bus, stream string, count func(subject string, n uint64)) error {
	s, err := b.UsedStream(ctx, stream)
	if s == nil {
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
// by the rest of their names: those of the channels are like b.ChannelConsumer("").
func Consumers(ctx context.Context, b *bus.Bus, like bus.Consumer) (map[string]*jetstream.ConsumerInfo, error) {
	s, err := b.UsedStream(ctx, like.Stream)
	found := map[string]*jetstream.ConsumerInfo{}
	if s == nil {
		return found, err
	}
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

// checkConsumer notes a consumer that somebody has paused or changed.
type checkConsumer func(bus.Consumer, *jetstream.ConsumerInfo)

// readConsumers looks at the consumers that are not of queues or channels, and returns unservedTicks. After an error, it
// has looked at the others. It returns unservedNotifications, too.
func readConsumers(ctx context.Context, b *bus.Bus, check checkConsumer) (ticks, notifications uint64, err error) {
	for _, c := range []bus.Consumer{b.TickConsumer(), b.NotifierConsumer(), b.HeartbeatConsumer(), b.DeadConsumer()} {
		info, ok, failed := b.ConsumerInfo(ctx, c)
		if ok && failed == nil {
			check(c, info)
		}
		switch {
		case failed != nil:
		case c.Name == b.TickConsumer().Name:
			ticks, failed = unservedTicks(ctx, b, info)
		case c.Name == b.NotifierConsumer().Name:
			notifications, failed = unservedNotifications(ctx, b, info)
		}
		err = cmp.Or(err, failed)
	}
	return ticks, notifications, err
}

// unservedTicks returns the number of ticks that wait while no worker asks for one. The consumer of ticks
// is nil if no worker has made it yet.
func unservedTicks(ctx context.Context, b *bus.Bus, consumer *jetstream.ConsumerInfo) (ticks uint64, err error) {
	switch {
	case consumer == nil:
		err = countSubjects(ctx, b, bus.Ticks, func(subject string, n uint64) {
			if tokens := b.Split(subject); len(tokens) > 0 && tokens[0] == "tick" {
				ticks += n
			}
		})
	case !isServed(consumer):
		ticks = untaken(consumer)
	}
	return ticks, err
}

// unservedNotifications returns the number of reports and notifications that wait for a notifier while none runs. Those of
// a channel with a consumer wait for its process instead. The consumer is nil if no notifier has ever run: reports are
// then stored, too, and perhaps nobody wants them.
func unservedNotifications(ctx context.Context, b *bus.Bus, consumer *jetstream.ConsumerInfo) (waiting uint64, err error) {
	switch {
	case consumer == nil:
	case isServed(consumer):
		return 0, nil
	default:
		waiting = untaken(consumer)
	}
	channels, err := Consumers(ctx, b, b.ChannelConsumer(""))
	if err == nil {
		err = countSubjects(ctx, b, bus.Outbox, func(subject string, n uint64) {
			if tokens := b.Split(subject); len(tokens) >= 2 && channels[tokens[1]] == nil {
				waiting += n
			}
		})
	}
	return waiting, err
}

// isServed reports whether a process asks a consumer for messages, or has some. What a process had that died counts as
// taken until another one asks.
func isServed(consumer *jetstream.ConsumerInfo) bool {
	last := consumer.Delivered.Last
	return consumer.NumWaiting > 0 || consumer.NumAckPending > 0 && last != nil && consumer.TimeStamp.Sub(*last) < consumer.Config.AckWait
}

// untaken returns the number of messages of a consumer that no process serves.
func untaken(consumer *jetstream.ConsumerInfo) uint64 {
	return consumer.NumPending + uint64(max(consumer.NumAckPending, 0))
}

func channels(ctx context.Context, b *bus.Bus, check checkConsumer) ([]Channel, error) {
	consumers, err := Consumers(ctx, b, b.ChannelConsumer(""))
	found := []Channel{}
	for _, name := range slices.Sorted(maps.Keys(consumers)) {
		info := consumers[name]
		check(b.ChannelConsumer(name), info)
		lately := func(last *time.Time) bool { return last != nil && time.Since(*last) < takesWithin }
		found = append(found, Channel{Name: name, Waiting: info.NumPending, Sending: info.NumAckPending, Served: info.NumWaiting > 0,
			lately:  lately(info.Delivered.Last),
			repeats: !lately(info.AckFloor.Last) && info.Delivered.Consumer-info.AckFloor.Consumer >= repeatedly*uint64(max(info.NumAckPending, 1))})
	}
	return found, err
}
