package object

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestManyUploadsAtOnce: the uploads of several stores have fewer chunks in flight
// than the server accepts for a stream.
func TestManyUploadsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 800 MB")
	}
	srv := startServer(t, server.Options{SyncAlways: true})
	data := storetest.Text(15*index.BlockSize, 500)
	var putting sync.WaitGroup
	for store := range 8 {
		s := openTest(t, connect(t, srv), Config{})
		for i := range 50 {
			putting.Go(func() {
				src := io.MultiReader(bytes.NewReader(storetest.Text(index.BlockSize, uint64(501+50*store+i))), bytes.NewReader(data))
				if _, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprintf("a%d-%d", store, i)), src, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	putting.Wait()
}
