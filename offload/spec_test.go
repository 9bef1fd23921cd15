package offload

import (
	"context"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

func TestParseSpec(t *testing.T) {
	for in, want := range map[string]Spec{
		"mem": {Kind: "mem"}, "disk:a/b:c": {"disk", "a/b:c"}, "object:blobs": {"object", "blobs"}, "object": {Kind: "object"},
	} {
		got, err := ParseSpec(in)
		if err != nil || got != want || got.String() != in {
			t.Errorf("%q: %+v (%s), %v; want %+v", in, got, got, err, want)
		}
	}
	for _, in := range []string{"", "disk", "disk:", "mem:x", "s3:bucket", "object:a.b", "object:>"} {
		if got, err := ParseSpec(in); err == nil {
			t.Errorf("%q was read as %+v", in, got)
		}
	}
}

func TestOpenStore(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	object := func(ctx context.Context, bucket string, cfg StoreConfig) (Store, error) {
		return OpenObject(ctx, js, ObjectConfig{StoreConfig: cfg, Bucket: bucket})
	}
	for _, spec := range []string{"mem", "disk:" + t.TempDir(), "object:blobs", "object"} {
		s, closeStore, err := OpenStore(t.Context(), spec, StoreConfig{}, object)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		mustRead(t, s, mustPut(t, s, rec("s", "a"), []byte("text")), []byte("text"))
		if err := closeStore(); err != nil {
			t.Errorf("%s: close: %v", spec, err)
		}
	}
	if _, _, err := OpenStore(t.Context(), "object", StoreConfig{}, nil); err == nil {
		t.Error("an object store without a connection was opened")
	}
}
