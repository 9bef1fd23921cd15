package rpc

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus/bustest"
)

// late is a request that the library delivers after the service was stopped.
type late struct{ micro.Request }

func (late) Subject() string { return "stevedore.rpc.call.default.echo" }
func (late) Reply() string   { return "_INBOX.late" }

// A request that arrives after Run has stopped is rejected.
func TestRequestAfterStop(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	service := NewService(b, nil, ServiceConfig{Log: bustest.Log(t)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := service.Run(ctx); err != nil {
		t.Fatal(err)
	}
	answers := bustest.Subscribe(t, b, "_INBOX.late")
	service.serve(t.Context(), newAdmission(1, t.Context().Done()), late{}, endpoint{operations: []*Operation{{Subject: "TOOL", answer: func(context.Context, Env, []byte) (any, error) {
		t.Error("the request was handled")
		return struct{}{}, nil
	}}}})
	service.active.Wait()
	if _, msg := bustest.Next[map[string]any](t, answers); msg.Header.Get(micro.ErrorCodeHeader) != "stopping" {
		t.Errorf("answered %s", msg.Data)
	}
}
