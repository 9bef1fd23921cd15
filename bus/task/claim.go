package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// Claim is the message on the claim subject of a once-only call. The first claim wins:
// only its owner may run the call.
type Claim struct {
	Worker string `json:"worker"`
	// Process identifies the process of the worker. OwnServer is set if the server runs in
	// that process, so that a later process of the server knows that the worker is dead.
	Process   string    `json:"process,omitempty"`
	OwnServer bool      `json:"own_server,omitempty"`
	Nonce     string    `json:"nonce"` // identifies the claim
	Digest    string    `json:"call_digest,omitempty"`
	At        time.Time `json:"at"`
	// GivenUp is set if the worker did not run the call but gave up on it.
	GivenUp bool `json:"given_up,omitempty"`
}

// ReadClaim returns the claim of a call and its sequence, which is 0 if there is none. For
// a message that no worker published, such as an acknowledgement that a client made the
// server send there, it returns a *ForgedError and the sequence.
func ReadClaim(ctx context.Context, b *bus.Bus, session, call string) (c Claim, sequence uint64, err error) {
	m, err := b.Last(ctx, bus.Results, b.Claim(session, call))
	if m.Sequence == 0 || err != nil {
		return Claim{}, 0, err
	}
	err = json.Unmarshal(m.Body, &c)
	if err == nil && (c.Nonce == "" || c.Worker == "") {
		err = errors.New("it names no worker and no nonce")
	}
	if err != nil {
		return Claim{}, m.Sequence, &ForgedError{b.Claim(session, call), m.Sequence, fmt.Errorf("the message is not a claim: %w: %w", ErrUnreadable, err)}
	}
	return c, m.Sequence, nil
}
