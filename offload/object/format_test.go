package object

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// A bucket of an unreleased version, which has no format version, is not read.
func TestUnmarkedBucketIsRefused(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: defaultRecordBucket})
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

// A server that refuses messages of the size of a chunk is named when the store opens, and not when
// the first result is lost.
func TestServerOfSmallMessages(t *testing.T) {
	js := connect(t, startServer(t, server.Options{MaxPayload: 64 << 10}))
	_, err := Open(t.Context(), js, Config{})
	if err == nil || !strings.Contains(err.Error(), "max_payload is 65536 bytes; set it to 131072 or more") {
		t.Errorf("got %v", err)
	}
	if _, err := js.Stream(t.Context(), "OBJ_"+DefaultBlobBucket); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a bucket was created: %v", err)
	}
}
