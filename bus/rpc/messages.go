package rpc

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
)

// ServeMessages answers the requests of bridges on <prefix>.rpc.message.<channel> until ctx ends.
// An error that is no *tools.Error means that the bridge has to ask again.
func ServeMessages(ctx context.Context, b *bus.Bus, channel string, log zerolog.Logger, answer func(ctx context.Context, request []byte) (any, error)) error {
	s := NewService(b, nil, ServiceConfig{Log: log})
	s.name = ServiceName + "-messages"
	s.own = []endpoint{{
		"message", "message." + channel, submitTimeout, `a message of a user: {"id","chat_id","text"}`, "the call that it became",
		[]*Operation{{Subject: "message.CHANNEL", answer: func(ctx context.Context, _ Env, body []byte) (any, error) { return answer(ctx, orEmpty(body)) }}},
	}}
	return s.Run(ctx)
}
