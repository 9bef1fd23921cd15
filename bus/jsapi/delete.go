package jsapi

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// The server has two errors for a message that is gone (errors.json: JSSequenceNotFoundErrF,
// JSStreamMsgDeleteFailedF). The second one is also for other faults, and its text tells.
// The error of jetstream.Stream.DeleteMsg has neither.
const (
	errSequenceNotFound = 10043
	errDeleteFailed     = 10057
	noMessageFound      = "no message found"
)

// DeleteMessage deletes a message of a stream, if it still exists.
func (a API) DeleteMessage(ctx context.Context, stream string, sequence uint64) error {
	reply, err := a.request(ctx, "STREAM.MSG.DELETE."+stream, Get{Sequence: sequence})
	if err != nil {
		return err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Success bool                `json:"success"`
	}
	switch err := json.Unmarshal(reply.Data, &answer); {
	case err != nil:
		return fmt.Errorf("delete message: %w", err)
	case answer.Success:
		return nil
	case answer.Error == nil:
		return fmt.Errorf("delete message %d: the server did not delete it", sequence)
	case answer.Error.ErrorCode == errSequenceNotFound,
		answer.Error.ErrorCode == errDeleteFailed && answer.Error.Description == noMessageFound:
		return nil
	}
	return answer.Error
}
