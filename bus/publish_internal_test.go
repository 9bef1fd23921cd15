package bus

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// A replicated stream that has not stored a message yet refuses its repetition. That is no answer: the stream may store it
// or not.
func TestRepetitionOfAMessageInProcess(t *testing.T) {
	t.Parallel()
	refused := server.NewJSStreamDuplicateMessageConflictError()
	tries := 0
	err := publishAgain(t.Context(), new(Bus), defaultTimeout, func(err error) bool { return isFinal(err) || isRejected(err) }, func() error {
		if tries++; tries > 2 {
			return nil
		}
		return classify(&jetstream.APIError{Code: refused.Code, ErrorCode: jetstream.ErrorCode(refused.ErrCode), Description: refused.Description})
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
}
