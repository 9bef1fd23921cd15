package main

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/admin"
	"github.com/stevedore-bus/stevedore/bus/embedded"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/bus/worker"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/object"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	submitName = "Stevedore, rpc.submit"
	callName   = "Stevedore, rpc.call"
)

// server starts a NATS server and returns its address.
func server(sync bool) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return "", nil, err
	}
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: !sync})
	if err != nil {
		return "", nil, err
	}
	return s.URL(), func() {
		s.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

type textArgs struct {
	Text string `json:"text"`
}

func stevedoreSubmit(sync bool) (system, error) { return stevedore(sync, submitName, "submit") }
func stevedoreCall(sync bool) (system, error)   { return stevedore(sync, callName, "call") }

// stevedore starts a worker with the shipped defaults, with an endpoint of the service.
func stevedore(sync bool, name, endpoint string) (system, error) {
	url, stop, err := server(sync)
	if err != nil {
		return system{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b, err := bus.Connect(ctx, bus.Config{Server: url})
	if err == nil {
		_, err = admin.Provision(ctx, b, admin.Nothing)
	}
	if err != nil {
		cancel()
		stop()
		return system{}, err
	}
	registry := tools.NewRegistry(zerolog.Nop())
	noop, err := tools.NewTool("noop", "answers at once", func(_ context.Context, _ tools.Call, in textArgs) *tools.Result {
		return tools.NewToolResult(in.Text)
	})
	if err == nil {
		err = registry.Register(noop.WithEffect(tools.Idempotent))
	}
	store, storeErr := object.Open(ctx, b.JetStream(), object.Config{Bucket: b.BucketName(bus.BlobsBucket), Records: b.BucketName(bus.ArtifactsBucket)})
	if err = errors.Join(err, storeErr); err != nil {
		cancel()
		stop()
		return system{}, err
	}
	offloader := offload.NewOffloader(store, offload.Config{})
	done := make(chan struct{}, 2)
	go func() {
		_ = worker.New(b, registry, offloader, worker.Config{}).Run(ctx)
		done <- struct{}{}
	}()
	ready := make(chan struct{})
	go func() {
		_ = rpc.NewService(b, nil, rpc.ServiceConfig{OnReady: func() { close(ready) }}).Run(ctx)
		done <- struct{}{}
	}()
	<-ready
	client, err := bus.Connect(ctx, bus.Config{Server: url})
	if err != nil {
		cancel()
		return system{}, err
	}
	var handled atomic.Int64
	if _, err := client.Conn().Subscribe(client.Stored(client.Result("*", "*")), func(*nats.Msg) { handled.Add(1) }); err != nil {
		cancel()
		return system{}, err
	}
	return system{
		name: name, handled: &handled,
		do: func(ctx context.Context, payload []byte) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			msg, err := client.Conn().RequestWithContext(ctx, client.RPC(endpoint, bus.DefaultQueue, "noop"), append(append([]byte(`{"args":`), payload...), '}'))
			if err == nil && msg.Header.Get("Nats-Service-Error") != "" {
				err = errors.New(msg.Header.Get("Nats-Service-Error"))
			}
			return err
		},
		close: func() {
			cancel()
			<-done
			<-done
			client.Close()
			b.Close()
			stop()
		},
	}, nil
}
