package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus"
)

// Accounts finds out whether two tenants of this process use one account and prefix: the calls of
// one would run in the workspace of the other. The process may know no other name of an account
// than its credential, so it asks in the account itself.
type Accounts struct {
	id string // in the subject
	mu sync.Mutex
}

// SharedAccountError names the other tenant.
type SharedAccountError struct{ Other string }

func (e *SharedAccountError) Error() string {
	return fmt.Sprintf("its credential is one of the account of the tenant %q; each tenant needs an account, or a --prefix, of its own", e.Other)
}

// NewAccounts returns an Accounts in which no tenant has an account.
func NewAccounts() *Accounts { return &Accounts{id: nuid.Next()} }

// Claim returns a SharedAccountError if another tenant has the account of b. Otherwise name has it
// until leave is called, or b is closed.
func (a *Accounts) Claim(ctx context.Context, b *bus.Bus, name string) (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	subject := b.RPC("tenants", a.id)
	limited, cancel := context.WithTimeout(ctx, time.Second) // the server answers at once if nobody does
	defer cancel()
	switch other, err := b.Conn().RequestWithContext(limited, subject, nil); {
	case err == nil:
		return nil, &SharedAccountError{string(other.Data)}
	case !errors.Is(err, nats.ErrNoResponders): // another one may have it, and be connecting again
		return nil, fmt.Errorf("ask whether another tenant has the account: %w", err)
	}
	sub, err := b.Conn().Subscribe(subject, func(msg *nats.Msg) {
		if b.IsInbox(msg.Reply) {
			_ = msg.Respond([]byte(name)) // the other one runs without an answer
		}
	})
	if err == nil {
		err = b.Conn().Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("claim the account: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is closed
}
