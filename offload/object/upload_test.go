package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestPutWithoutStream: a Put fails if the stream is missing, and succeeds after the
// store is opened again.
func TestPutWithoutStream(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	data := storetest.Text(12*index.BlockSize, 400)
	storetest.Put(t, s, storetest.NewRecord("s", "before"), storetest.Text(10, 401))
	if err := js.DeleteStream(t.Context(), "OBJ_"+DefaultBlobBucket); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), bytes.NewReader(data), nil); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("%v, want ErrNoStreamResponse", err)
	}
	if s.noPurge.Load() != 0 {
		t.Error("the store stopped tidying although the server answered")
	}
	s = openTest(t, js, Config{})
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
}

// TestPutWithoutAnswer: a Put fails with a timeout if the server does not answer.
func TestPutWithoutAnswer(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	s.tidyTimeout = time.Second
	var err error
	if s.publisher, err = jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(200*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "OBJ_"+DefaultBlobBucket); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Conn().Subscribe(s.chunkSubject("*"), func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	_, err = s.Put(t.Context(), storetest.NewRecord("s", "a"), bytes.NewReader(storetest.Text(40*index.BlockSize, 402)), nil)
	if !errors.Is(err, jetstream.ErrAsyncPublishTimeout) {
		t.Errorf("%v, want ErrAsyncPublishTimeout", err)
	}
}

// TestPutLosesTheConnection: an upload fails when the connection is lost, not after
// the timeout for the answer.
func TestPutLosesTheConnection(t *testing.T) {
	srv := startServer(t, server.Options{Host: "127.0.0.1", Port: -1})
	p := newProxy(t, srv.Addr().String())
	s := openTest(t, p.connect(t), Config{})
	s.tidyTimeout = 100 * time.Millisecond
	var err error
	if s.publisher, err = jetstream.New(s.publisher.Conn()); err != nil { // without a timeout
		t.Fatal(err)
	}
	js := connect(t, srv)
	if err := js.DeleteStream(t.Context(), "OBJ_"+DefaultBlobBucket); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Conn().Subscribe(s.chunkSubject("*"), func(*nats.Msg) { p.cut() }); err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	up := newTestUpload(t, s)
	if err := up.send(t.Context(), storetest.Text(10, 403)); err != nil {
		t.Fatal(err)
	}
	if err := up.awaitAll(t.Context()); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("%v, want ErrDisconnected", err)
	}
}

// TestPutsShareSubscriptions: Puts do not leave subscriptions behind.
func TestPutsShareSubscriptions(t *testing.T) {
	t.Parallel()
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	storetest.Put(t, s, storetest.NewRecord("s", "a"), storetest.Text(10, 404))
	before := js.Conn().NumSubscriptions()
	for i := range 10 {
		data := storetest.Text(i*index.BlockSize, uint64(405+i))
		storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", fmt.Sprint("b", i)), data), data)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ended, storetest.NewRecord("s", "c"), bytes.NewReader(storetest.Text(index.BlockSize, 420)), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want Canceled", err)
	}
	if n := js.Conn().NumSubscriptions(); n != before {
		t.Errorf("%d subscriptions, %d before", n, before)
	}
	var putting sync.WaitGroup
	for i := range 64 {
		putting.Go(func() {
			if _, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprint("d", i)), bytes.NewReader(storetest.Text(index.BlockSize, uint64(430+i))), nil); err != nil {
				t.Error(err)
			}
		})
	}
	putting.Wait()
	if n := js.Conn().NumSubscriptions(); n != before {
		t.Errorf("%d subscriptions, %d before", n, before)
	}
}

// TestDiscardWaitsForAnswers: a chunk in flight must not arrive after the purge.
func TestDiscardWaitsForAnswers(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	up := newTestUpload(t, s)
	if err := up.send(t.Context(), storetest.Text(10, 499)); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := up.awaitAll(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	up.discard(ended)
	if n := chunksOf(t, s, up.nuid); len(up.pending) != 0 || n != 0 {
		t.Errorf("%d chunks are in flight, %d are stored", len(up.pending), n)
	}
}

// TestStoreLeavesNoSubscriptions: the connection has no subscription of a store that
// was garbage-collected.
func TestStoreLeavesNoSubscriptions(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	openTest(t, js, Config{}).api.GetMessage(t.Context(), "OBJ_"+DefaultBlobBucket, jsapi.Get{Sequence: 1}) // for replies to requests
	before := js.Conn().NumSubscriptions()
	storetest.Put(t, openTest(t, js, Config{}), storetest.NewRecord("s", "a"), storetest.Text(10, 498))
	for deadline := time.Now().Add(3 * time.Minute); js.Conn().NumSubscriptions() > before; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d subscriptions, %d before", js.Conn().NumSubscriptions(), before)
		}
	}
}
