package simulate

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
)

// consumerEdits are what somebody does to a consumer with another program. A completion or a tick that reaches the
// limit of deliveries is lost, and so the consumers of these get only the first ones.
var consumerEdits = []struct {
	what string
	edit func(*jetstream.ConsumerConfig)
}{
	{"one message at once", func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 }},
	{"headers only", func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }},
	{"each message once", func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 }},
	{"nothing", func(c *jetstream.ConsumerConfig) { c.FilterSubject, c.FilterSubjects = c.Name, nil }},
}

// meddle lets somebody delete, pause or edit a consumer, and later do what docs/operate.md says against it.
func (s *simulation) meddle(outage time.Duration) {
	consumers := []bus.Consumer{
		s.client.WorkerConsumer(bus.DefaultQueue), s.client.ChannelConsumer("chat"), s.client.NotifierConsumer(), s.client.TickConsumer(),
	}
	i, kinds := s.rnd.IntN(len(consumers)), 2+len(consumerEdits)
	if i >= 2 {
		kinds -= 2
	}
	how, c, js := s.rnd.IntN(kinds), consumers[i], s.client.JetStream()
	stream := s.client.StreamName(c.Stream)
	change := func(request func(context.Context) error) {
		s.retry(func(ctx context.Context) error {
			if err := request(ctx); !errors.Is(err, jetstream.ErrConsumerNotFound) { // it may have been deleted before
				return err
			}
			return nil
		})
	}
	switch how {
	case 0:
		s.note("somebody deletes the consumer %s of %s", c.Name, stream)
		change(func(ctx context.Context) error { return js.DeleteConsumer(ctx, stream, c.Name) })
	case 1:
		s.note("somebody pauses the consumer %s of %s for %v", c.Name, stream, outage)
		until := time.Now().Add(outage)
		change(func(ctx context.Context) error { _, err := js.PauseConsumer(ctx, stream, c.Name, until); return err })
	default:
		edit := consumerEdits[how-2]
		s.note("somebody lets the consumer %s of %s deliver %s for %v", c.Name, stream, edit.what, outage)
		change(func(ctx context.Context) error {
			have, err := js.Consumer(ctx, stream, c.Name)
			if err != nil {
				return err
			}
			config := have.CachedInfo().Config
			edit.edit(&config)
			_, err = js.UpdateConsumer(ctx, stream, config)
			return err
		})
		s.mend = time.Now().Add(outage)
	}
}

// mendConsumers lets somebody restart a process, which gives consumers their settings back, if it is time or must be now.
func (s *simulation) mendConsumers(now bool) {
	if !s.mend.IsZero() && (now || time.Now().After(s.mend)) {
		s.mend = time.Time{}
		s.stopProcess(s.rnd.IntN(len(s.running)))
	}
}

// editStream lets somebody edit a stream so that it refuses or hides messages, and later update the provision.
func (s *simulation) editStream(outage time.Duration) {
	names := []string{
		s.stream(bus.Calls), s.stream(bus.Results), s.stream(bus.Outbox), s.stream(bus.Sessions), s.stream(bus.Dead),
		s.client.BucketStream(bus.TasksBucket),
	}
	i, how := s.rnd.IntN(len(names)), s.rnd.IntN(3)
	name := names[i]
	if i == len(names)-1 && how == 2 {
		// A slow chat has the text before its record is refused, and the bucket is mended late if the server is away.
		s.ledger.refuseRecords(span{time.Now().Add(-30 * time.Second), time.Now().Add(outage + time.Minute)})
	}
	s.note("somebody edits the stream %s, in way %d, for %v", name, how, outage)
	s.healing.Go(func() {
		s.edit(name, func(info *jetstream.StreamInfo) {
			switch c := &info.Config; how {
			case 0:
				c.AllowDirect = false
			case 1:
				c.RePublish = nil
				c.Subjects = c.Subjects[:max(1, len(c.Subjects)-1)]
			default:
				c.RePublish, c.AllowAtomicPublish, c.Subjects = nil, false, []string{s.subject("nothing." + name)}
			}
		})
		time.Sleep(outage)
		s.retry(func(ctx context.Context) error {
			_, err := admin.Provision(ctx, s.client, admin.Everything)
			return err
		})
	})
}

// edit lets somebody change the settings of a stream.
func (s *simulation) edit(name string, change func(*jetstream.StreamInfo)) {
	s.retry(func(ctx context.Context) error {
		stream, err := s.client.JetStream().Stream(ctx, name)
		if err != nil {
			return err
		}
		info := *stream.CachedInfo()
		change(&info)
		_, err = s.client.JetStream().UpdateStream(ctx, info.Config)
		return err
	})
}
