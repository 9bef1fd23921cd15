package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Trimmed is the record of what workers removed from a stream, in the tasks bucket.
type Trimmed struct {
	// Before is a time: messages that were stored before may be missing. It is stored
	// before they are removed.
	Before time.Time `json:"before,omitzero"`
	// Holder is the worker that may remove messages, until the time Until.
	Holder string    `json:"holder,omitempty"`
	Until  time.Time `json:"until,omitzero"`
}

// TrimmedKey is the key of the record of a stream.
func TrimmedKey(stream string) string { return "trim." + stream }

// ReadTrimmed returns the record of a stream and its revision, which is 0 if there is
// none. It asks the leader, because a replica may lag behind.
func (b *Bus) ReadTrimmed(ctx context.Context, stream string) (t Trimmed, revision uint64, err error) {
	bucket := b.BucketName(TasksBucket)
	m, err := b.api.GetFromLeader(ctx, "KV_"+bucket, jsapi.Get{LastBySubject: "$KV." + bucket + "." + TrimmedKey(stream)})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Trimmed{}, 0, nil
	}
	if err == nil && len(m.Data) > 0 {
		err = json.Unmarshal(m.Data, &t)
	}
	if err != nil {
		return Trimmed{}, 0, fmt.Errorf("read the trim record of stream %s: %w", b.StreamName(stream), err)
	}
	return t, m.Sequence, nil
}
