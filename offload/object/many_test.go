package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestManyUploadsAtOnce: the uploads of several stores have fewer chunks in flight than the
// server accepts for a stream. It accepts 16 MiB for each store here, as its default of
// 128 MiB does for 8 stores.
func TestManyUploadsAtOnce(t *testing.T) {
	t.Parallel()
	const stores, uploads = 2, 24
	srv := startServer(t, server.Options{SyncAlways: true, StreamMaxBufferedSize: stores * 16 << 20})
	data := storetest.Text(7*index.BlockSize, 500)
	var putting sync.WaitGroup
	// The server still holds chunks of uploads that gave up because it was slow. After that, a refusal
	// says nothing.
	var late atomic.Bool
	for store := range stores {
		s := openTest(t, connect(t, srv), Config{})
		for i := range uploads {
			putting.Go(func() {
				for t.Context().Err() == nil {
					src := io.MultiReader(bytes.NewReader(storetest.Text(index.BlockSize, uint64(501+uploads*store+i))), bytes.NewReader(data))
					_, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprintf("a%d-%d", store, i)), src, nil)
					if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrAsyncPublishTimeout) {
						late.Store(true)
					} else if err == nil || !late.Load() {
						if err != nil {
							t.Error(err)
						}
						return
					}
				}
			})
		}
	}
	putting.Wait()
}
