package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// Since this revision a server tells only clients that subscribe that its tools
	// changed. The SDK subscribes, and does not wait for the server.
	subscribes = "2026-07-28"
	// acknowledged is the server's first message after a subscription.
	acknowledged = "notifications/subscriptions/acknowledged"
	// subscriptionTimeout is for servers that never send it.
	subscriptionTimeout = 5 * time.Second
)

// subscription is the client's to changes of the tools. If the tools were listed before the
// server knows of it, a change in between would remain unknown.
type subscription chan struct{}

func newSubscription(client *mcp.Client) subscription {
	known := make(subscription)
	end := sync.OnceFunc(func() { close(known) })
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == acknowledged {
				end()
			}
			return next(ctx, method, req)
		}
	})
	return known
}

// wait waits until the server knows the subscription, if there is one.
func (s subscription) wait(ctx context.Context, server *mcp.InitializeResult) {
	if server == nil || server.ProtocolVersion < subscribes ||
		server.Capabilities == nil || server.Capabilities.Tools == nil || !server.Capabilities.Tools.ListChanged {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, subscriptionTimeout)
	defer cancel()
	select {
	case <-s:
	case <-ctx.Done():
	}
}
