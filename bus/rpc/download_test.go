package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/rpc"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/mem"
	"github.com/stevedore-bus/stevedore/tools"
)

// Download writes all pages in order and unchanged, also if the server's max_payload
// is small.
func TestDownload(t *testing.T) {
	random := make([]byte, 5*offload.ReadChars+99)
	src := rand.NewChaCha8([32]byte{1})
	src.Read(random)
	contents := map[string][]byte{
		"empty":     nil,
		"one-page":  bytes.Repeat([]byte("x"), offload.ReadChars),
		"two-pages": bytes.Repeat([]byte("x"), offload.ReadChars+1),
		"many":      []byte(strings.Repeat("a line, é and 😀, of some length\n", 12*offload.ReadChars/32)),
		"control":   bytes.Repeat([]byte{1}, 3*offload.ReadChars), // as JSON six times as long
		"random":    random,
	}
	store := mem.New(offload.StoreConfig{})
	for id, content := range contents {
		rec := offload.Record{Session: "s", Artifact: tools.Artifact{ID: id}}
		if _, err := store.Put(t.Context(), rec, bytes.NewReader(content), nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, payload := range map[string]int32{"default": 0, "small": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			b := serveReads(t, payload, offload.NewReader(store, offload.ReaderConfig{}))
			for id, content := range contents {
				var out bytes.Buffer
				err := rpc.Download(t.Context(), b, "s", id, 0, &out)
				if err != nil || !bytes.Equal(out.Bytes(), content) {
					t.Errorf("%s: %d bytes, %v; want the %d that were put", id, out.Len(), err, len(content))
				}
			}
			var out bytes.Buffer
			want := string([]rune(string(contents["many"]))[100_001:])
			if err := rpc.Download(t.Context(), b, "s", "many", 100_001, &out); err != nil || out.String() != want {
				t.Errorf("from an offset: %d bytes, %v; want %d", out.Len(), err, len(want))
			}
			if err := rpc.Download(t.Context(), b, "s", "many", 0, closedPipe{}); !errors.Is(err, errClosedPipe) {
				t.Errorf("into a closed pipe: %v", err)
			}
			if err := rpc.Download(t.Context(), b, "other", "many", 0, &out); tools.CodeOf(err) != tools.CodeNotFound {
				t.Errorf("of another session: %v", err)
			}
		})
	}
}

var errClosedPipe = errors.New("the pipe is closed")

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errClosedPipe }

// serveReads runs a service that reads artifacts on a server with this max_payload.
func serveReads(t *testing.T, payload int32, reader *offload.Reader) *bus.Bus {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: payload})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	b, err := bus.Connect(t.Context(), bus.Config{InProcess: srv, Log: bustest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	service := rpc.NewService(b, reader, rpc.ServiceConfig{OnReady: func() { close(ready) }, Log: bustest.Log(t)})
	go func() { done <- service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("service: %v", err)
		}
	})
	<-ready
	return b
}
