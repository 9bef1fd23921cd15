package rpc

import (
	"context"

	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
)

// ServeMessages answers the requests of bridges on <prefix>.rpc.message.<channel> until ctx ends.
// An error that is no *tools.Error means that the bridge has to ask again.
func ServeMessages(ctx context.Context, b *bus.Bus, channel string, log zerolog.Logger, answer func(ctx context.Context, request []byte) (any, error)) error {
	s := NewService(b, nil, ServiceConfig{Log: log})
	s.name = ServiceName + "-messages"
	s.own = []endpoint{{"message", "message." + channel, submitTimeout, func(ctx context.Context, req micro.Request) (any, error) {
		return answer(traceOf(ctx, req), orEmpty(req.Data()))
	}, `a message of a user: {"id","chat_id","text"}`, "the call that it became"}}
	return s.Run(ctx)
}
