package rpc

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Request sends a request to the service and returns the body of the answer. An
// error answer is a *tools.Error; nats.ErrNoResponders means that no worker is
// running.
func Request(ctx context.Context, b *bus.Bus, subject string, in any) ([]byte, error) {
	if err := bus.CheckSubject(subject); err != nil {
		return nil, tools.Errorf(tools.CodeInvalidArguments, "%v", err)
	}
	body, err := bus.Encode(in)
	if err != nil {
		return nil, err
	}
	var msg *nats.Msg
	err = b.WatchDenial(ctx, subject, func(ctx context.Context) (err error) {
		msg, err = b.Conn().RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: body})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("request %q: %w", subject, err)
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, &tools.Error{Code: code, Message: msg.Header.Get(micro.ErrorHeader)}
	}
	return msg.Data, nil
}
