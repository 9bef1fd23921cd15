package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// askWorkers is how long a worker may take to say what it runs.
	askWorkers = 2 * time.Second
	// askOthers is how long those are waited for of whom nobody knows: calls
	// whose message expired while they run.
	askOthers = 50 * time.Millisecond
)

// askRunning asks all workers for a call, or all that a session has running, and
// returns what they say, by token. Those that have nothing are silent, so nobody
// knows how many will answer: it is over soon after enough says that nothing is
// missing any more. For a single call, the first answer is enough.
func askRunning(ctx context.Context, b *bus.Bus, subject string, enough func(map[string]tools.RunningCall) bool) (map[string]tools.RunningCall, error) {
	ctx, cancel := context.WithTimeout(ctx, askWorkers)
	defer cancel()
	inbox := b.Conn().NewInbox()
	sub, err := b.Conn().SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask what runs: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // gone with the connection otherwise
	if err := b.Conn().PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask what runs: %w", err)
	}
	found := map[string]tools.RunningCall{}
	single, soon := len(b.Split(subject)) == 4, false
	for {
		if !soon && enough(found) {
			soon = true
			ctx, cancel = context.WithTimeout(ctx, askOthers)
			defer cancel()
		}
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return found, nil
		case err != nil:
			return nil, fmt.Errorf("ask what runs: %w", err)
		}
		var calls []tools.RunningCall
		if json.Unmarshal(msg.Data, &calls) != nil {
			continue // somebody else's
		}
		for _, c := range calls {
			found[c.ID] = c
		}
		if single && len(found) > 0 {
			return found, nil
		}
	}
}
