package object

import (
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// A bucket of an unreleased version, which has no format version, is not read.
func TestUnmarkedBucketIsRefused(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: DefaultRecordBucket})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "s.a", "{}"); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), js, Config{})
	if _, ok := errors.AsType[*jsapi.FormatError](err); !ok {
		t.Errorf("got %v", err)
	}
}
