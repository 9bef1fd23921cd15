package jsapi

import (
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrStoreFailed is the error code of a message that a stream did not store (errors.json: JSStreamStoreFailedF).
const ErrStoreFailed = 10077

// ErrNoPeers is the error code of a cluster in which not enough servers are online (errors.json: JSClusterNoPeersErrF).
const ErrNoPeers = 10005

// IsNoSpace reports whether the server refused a request because a stream, an account or the server has no space.
// The text counts (errors.json and store.go of the server), because ErrStoreFailed has other causes too. That of a
// cluster without servers for a replica may name the space of one.
func IsNoSpace(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if !ok || api.ErrorCode == ErrNoPeers {
		return false
	}
	texts := []string{"maximum bytes", "maximum messages exceeded", "insufficient", "resource limits", "no space"}
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(api.Description, text) })
}
