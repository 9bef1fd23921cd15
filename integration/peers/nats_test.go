package peers

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/choria-io/asyncjobs"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

// asyncJobs runs choria-io/asyncjobs; its results are in a key-value bucket.
func asyncJobs(sync bool) (system, error) {
	url, stop, err := server(sync)
	if err != nil {
		return system{}, err
	}
	nc, err := nats.Connect(url, nats.UseOldRequestStyle()) // asyncjobs requires it
	if err != nil {
		return system{}, err
	}
	quiet := logrus.New()
	quiet.SetLevel(logrus.PanicLevel)
	client, err := asyncjobs.NewClient(asyncjobs.NatsConn(nc), asyncjobs.ClientConcurrency(64), asyncjobs.CustomLogger(logrus.NewEntry(quiet)),
		asyncjobs.WorkQueue(&asyncjobs.Queue{Name: "PEERS", MaxConcurrent: 64, MaxRunTime: time.Minute}))
	if err != nil {
		return system{}, err
	}
	var handled atomic.Int64
	router := asyncjobs.NewTaskRouter()
	if err := router.HandleFunc("noop", func(context.Context, asyncjobs.Logger, *asyncjobs.Task) (any, error) {
		handled.Add(1)
		return "ok", nil
	}); err != nil {
		return system{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = client.Run(ctx, router) }()
	return system{
		name: "asyncjobs 0.1.0", handled: &handled,
		do: func(ctx context.Context, payload []byte) error {
			task, err := asyncjobs.NewTask("noop", string(payload))
			if err != nil {
				return err
			}
			return client.EnqueueTask(ctx, task)
		},
		close: func() { cancel(); time.Sleep(100 * time.Millisecond); nc.Close(); stop() },
	}, nil
}

// watermillNATS runs a handler of watermill-nats that publishes a result for each message.
func watermillNATS(sync bool) (system, error) {
	url, stop, err := server(sync)
	if err != nil {
		return system{}, err
	}
	log := watermill.NewSlogLogger(slog.New(slog.DiscardHandler))
	js := wmnats.JetStreamConfig{AutoProvision: true, AckAsync: true, DurablePrefix: "peers"}
	marshaler := &wmnats.NATSMarshaler{}
	publisher, err := wmnats.NewPublisher(wmnats.PublisherConfig{URL: url, Marshaler: marshaler, JetStream: js}, log)
	if err != nil {
		return system{}, err
	}
	subscriber, err := wmnats.NewSubscriber(wmnats.SubscriberConfig{
		URL: url, QueueGroupPrefix: "peers", SubscribersCount: 16, AckWaitTimeout: 30 * time.Second, Unmarshaler: marshaler, JetStream: js,
	}, log)
	if err != nil {
		return system{}, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, log)
	if err != nil {
		return system{}, err
	}
	if err := subscriber.SubscribeInitialize("peerresults"); err != nil { // makes the stream
		return system{}, err
	}
	var handled atomic.Int64
	router.AddHandler("noop", "peerjobs", subscriber, "peerresults", counting{publisher, &handled}, func(msg *message.Message) ([]*message.Message, error) {
		return message.Messages{message.NewMessage(msg.UUID, []byte("ok"))}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = router.Run(ctx) }()
	<-router.Running()
	return system{
		name: "watermill-nats 2.1", handled: &handled,
		do: func(_ context.Context, payload []byte) error {
			return publisher.Publish("peerjobs", message.NewMessage(watermill.NewUUID(), payload))
		},
		close: func() { cancel(); _ = router.Close(); _ = publisher.Close(); stop() },
	}, nil
}

// counting counts the results that are stored.
type counting struct {
	message.Publisher
	handled *atomic.Int64
}

func (c counting) Publish(topic string, msgs ...*message.Message) error {
	err := c.Publisher.Publish(topic, msgs...)
	if err == nil {
		c.handled.Add(int64(len(msgs)))
	}
	return err
}
