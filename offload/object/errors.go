package object

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
)

// isWrongSequence reports whether the server rejected a message because its subject
// or stream has another last sequence than the publisher expected.
func isWrongSequence(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// isRejected reports whether the server rejected a message. After any other error,
// the stream may have stored it.
func isRejected(err error) bool {
	_, ok := errors.AsType[*jetstream.APIError](err)
	return ok
}

// quotaError adds ErrQuota to an error that says that the server has no space.
func quotaError(err error) error {
	if !jsapi.IsNoSpace(err) {
		return err
	}
	what := "the server stores as much as it may"
	if e, ok := errors.AsType[*jetstream.APIError](err); ok && e.ErrorCode == jsapi.ErrStoreFailed {
		what = "its bucket has no space left"
	}
	return fmt.Errorf("%w: %s; remove artifacts and sweep: %w", offload.ErrQuota, what, err)
}
