package object

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

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
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch e.ErrorCode {
		case 10077: // store failed: the limit of the stream
			return fmt.Errorf("%w: its bucket has no space left; remove artifacts and sweep: %w", offload.ErrQuota, err)
		case 10023, 10047, 10028, 10002: // insufficient resources, storage or account limits
			return fmt.Errorf("%w: the server stores as much as it may; remove artifacts and sweep: %w", offload.ErrQuota, err)
		}
	}
	return err
}
