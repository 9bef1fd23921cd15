package jsapi

import (
	"context"
	"errors"
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

// DeleteMessage deletes a message of a stream, if it still exists. The server does not
// overwrite its bytes, because it would write the whole block of messages again.
func (a API) DeleteMessage(ctx context.Context, stream string, sequence uint64) error {
	reply, err := a.request(ctx, "STREAM.MSG.DELETE."+stream, struct {
		Sequence uint64 `json:"seq"`
		NoErase  bool   `json:"no_erase"`
	}{sequence, true})
	if err != nil {
		return err
	}
	var answer struct{ Success bool }
	err = apiError(reply.Data, &answer)
	api, refused := errors.AsType[*jetstream.APIError](err)
	switch {
	case refused && (api.ErrorCode == errSequenceNotFound || api.ErrorCode == errDeleteFailed && api.Description == noMessageFound):
		return nil
	case err == nil && !answer.Success:
		return fmt.Errorf("delete message %d: the server did not delete it", sequence)
	}
	return err
}
