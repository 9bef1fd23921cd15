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

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/storetest"
)

// TestPutWithoutStream: nobody takes the chunks, and the next Put, which finds
// the bucket again, is not confused by that.
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
	if s.noPurge.Load() {
		t.Error("the store does not tidy up any more, although the server answered")
	}
	s = openTest(t, js, Config{})
	storetest.CheckContent(t, s, storetest.Put(t, s, storetest.NewRecord("s", "a"), data), data)
}

// TestPutWithoutAnswer: the server takes the chunks and says nothing.
func TestPutWithoutAnswer(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	s := openTest(t, js, Config{})
	s.ackTimeout, s.tidyTimeout = 2*lookInterval, time.Second
	if err := js.DeleteStream(t.Context(), "OBJ_"+DefaultBlobBucket); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Conn().Subscribe(s.chunkSubject("*"), func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), storetest.NewRecord("s", "a"), bytes.NewReader(storetest.Text(40*index.BlockSize, 402)), nil)
	if !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("%v, want ErrTimeout", err)
	}
	if len(s.idle) != 0 {
		t.Error("where answers may still come the next upload would take them")
	}
}

// TestPutLosesTheConnection: who waits for an answer that is lost learns it when
// the connection is, and not when the server had all the time it may take.
func TestPutLosesTheConnection(t *testing.T) {
	srv := startServer(t, server.Options{Host: "127.0.0.1", Port: -1})
	p := newProxy(t, srv.Addr().String())
	s := openTest(t, p.connect(t), Config{})
	s.ackTimeout, s.tidyTimeout = time.Hour, 100*time.Millisecond
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

// TestAcksOutOfOrder: a refusal overtakes what the stream has to store first.
func TestAcksOutOfOrder(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	up := newTestUpload(t, openTest(t, js, Config{}))
	var numbers []int
	for range 3 {
		number, err := up.acks.publish(&nats.Msg{Subject: up.s.chunkSubject(up.nuid), Data: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
	}
	for i := range numbers {
		seq, err := up.acks.await(t.Context(), numbers[len(numbers)-1-i])
		if want := uint64(len(numbers) - i); err != nil || seq != want {
			t.Errorf("sequence %d, %v; want %d", seq, err, want)
		}
	}
	for _, answer := range []string{"", "no JSON", `{}`, `{"stream":"x"}`} {
		if seq, err := readAck(&nats.Msg{Data: []byte(answer)}); err == nil {
			t.Errorf("%q: sequence %d", answer, seq)
		}
	}
}

// TestPutsShareSubscriptions: Puts leave subscriptions only for those to come, and
// not many.
func TestPutsShareSubscriptions(t *testing.T) {
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
	for i := range 4 * idleAcks {
		putting.Go(func() {
			if _, err := s.Put(t.Context(), storetest.NewRecord("s", fmt.Sprint("d", i)), bytes.NewReader(storetest.Text(index.BlockSize, uint64(430+i))), nil); err != nil {
				t.Error(err)
			}
		})
	}
	putting.Wait()
	if n := js.Conn().NumSubscriptions(); n >= before+idleAcks {
		t.Errorf("%d subscriptions, %d before", n, before)
	}
}

// TestDiscardWaitsForAnswers: also for that to the chunk at which the Put was
// given up, which would arrive after the purge; then no answer may still come.
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
	if n := chunksOf(t, s, up.nuid); up.acks.open != 0 || n != 0 {
		t.Errorf("%d answers may still come, %d chunks are left", up.acks.open, n)
	}
}

// TestStoreLeavesNoSubscriptions: a store that nobody has any more leaves none to
// the connection.
func TestStoreLeavesNoSubscriptions(t *testing.T) {
	js := connect(t, startServer(t, server.Options{}))
	openTest(t, js, Config{}).api.get(t.Context(), "OBJ_"+DefaultBlobBucket, msgRequest{Seq: 1}) // the connection's own
	before := js.Conn().NumSubscriptions()
	storetest.Put(t, openTest(t, js, Config{}), storetest.NewRecord("s", "a"), storetest.Text(10, 498))
	for deadline := time.Now().Add(20 * time.Second); js.Conn().NumSubscriptions() > before; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d subscriptions, %d before", js.Conn().NumSubscriptions(), before)
		}
	}
}
