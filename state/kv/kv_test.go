package kv

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/bustest"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/state"
)

// TestStores tests what both stores do. Each call of open is like another process.
func TestStores(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.json")
		testStore(t, func() state.Store {
			f, err := state.OpenFile(path, state.FileConfig{})
			must(t, err)
			return f
		})
	})
	t.Run("kv", func(t *testing.T) {
		connect := startServer(t)
		newBucket(t, connect(), jetstream.KeyValueConfig{Bucket: "state"})
		testStore(t, func() state.Store {
			js := connect()
			bucket, err := js.KeyValue(t.Context(), "state")
			must(t, err)
			return newStore(js, bucket)
		})
	})
}

func newStore(js jetstream.JetStream, bucket jetstream.KeyValue) *Store {
	return New(jsapi.New(js), func(context.Context) (jetstream.KeyValue, error) { return bucket, nil })
}

func testStore(t *testing.T, open func() state.Store) {
	ctx, s := t.Context(), open()
	start := time.Now().Add(-time.Second)
	record := func(session, name, chat string) {
		t.Helper()
		must(t, state.SetLastChannel(ctx, s, session, state.Channel{Name: name, ChatID: chat}, true))
	}
	record("s1", "telegram", "-100:7 \x00\"\n<é>")
	record("s2", "console", "")
	record("", "mail", "a@b")
	for session, want := range map[string]state.Channel{
		"s1": {Name: "telegram", ChatID: "-100:7 \x00\"\n<é>"}, "s2": {Name: "console"}, "": {Name: "mail", ChatID: "a@b"}, "s3": {},
	} {
		got, err := state.LastChannel(ctx, open(), session)
		if at := got.At; !want.IsZero() && (at.Before(start) || at.After(time.Now().Add(time.Second)) || at.Location() != time.UTC) || want.IsZero() != at.IsZero() {
			t.Errorf("session %q: recorded at %v", session, at)
		}
		got.At = time.Time{}
		if got != want || err != nil {
			t.Errorf("session %q: got %+v, %v, want %+v", session, got, err, want)
		}
	}

	must(t, s.Set(ctx, map[string]string{"gone": "x", "kept": "x"}))
	must(t, s.Set(ctx, map[string]string{"gone": "", "never": ""}))
	for _, value := range []string{strings.Repeat("x", 64<<10+1), "\xff"} {
		if err := s.Set(ctx, map[string]string{"gone": "x", "large": value}); err == nil || !strings.Contains(err.Error(), `the value of "large"`) {
			t.Errorf("a value of %d bytes: got %v, want an error that names its key", len(value), err)
		}
	}
	for _, key := range []string{"", "a b", "é", "*", ">", "a..b", ".a", "a.", "a/b", "a\n", strings.Repeat("k", 257)} {
		for _, value := range []string{"x", ""} {
			if err := s.Set(ctx, map[string]string{"gone": "x", key: value}); err == nil || !strings.Contains(err.Error(), "want words") {
				t.Errorf("key %.20q: got %v, want an error that says what a key is", key, err)
			}
		}
	}
	reopened := open()
	for key, want := range map[string]string{"gone": "", "never": "", "kept": "x"} {
		if got, err := reopened.Get(ctx, key); got.Value != want || got.UpdatedAt.IsZero() != (want == "") || err != nil {
			t.Errorf("%s: got %+v, %v, want value %q", key, got, err, want)
		}
	}

	const writers, each = 4, 10 // no writer erases what another one wrote
	var wg sync.WaitGroup
	for w := range writers {
		s := open()
		wg.Go(func() {
			for i := range each {
				if err := state.SetLastChannel(ctx, s, fmt.Sprintf("w%d", w), state.Channel{Name: fmt.Sprint(i)}, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for w := range writers {
		if got, err := state.LastChannel(ctx, s, fmt.Sprintf("w%d", w)); got.Name != fmt.Sprint(each-1) || err != nil {
			t.Errorf("writer %d: got %+v, %v", w, got, err)
		}
	}
}

func TestEmptyValueOfAnotherClient(t *testing.T) {
	js := startServer(t)()
	bucket := newBucket(t, js, jetstream.KeyValueConfig{Bucket: "state"})
	_, err := bucket.PutString(t.Context(), "k", "")
	must(t, err)
	if got, err := newStore(js, bucket).Get(t.Context(), "k"); got != (state.Fact{}) || err != nil {
		t.Errorf("got %+v, %v, want no fact", got, err)
	}
}

func TestBucketFull(t *testing.T) {
	js := startServer(t)()
	s := newStore(js, newBucket(t, js, jetstream.KeyValueConfig{Bucket: "state", MaxBytes: 4 << 10}))
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = s.Set(t.Context(), map[string]string{fmt.Sprintf("k%d", i): strings.Repeat("v", 100)})
	}
	if err == nil || !strings.Contains(err.Error(), `"state": the bucket is full; increase its size: `) {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	must(t, s.Set(t.Context(), map[string]string{"k0": "short"})) // an existing fact can still change
}

func TestServerGone(t *testing.T) {
	srv := runServer(t)
	js := dial(t, srv)
	s := newStore(js, newBucket(t, js, jetstream.KeyValueConfig{Bucket: "state"}))
	must(t, s.Set(t.Context(), map[string]string{"k": "v"}))
	srv.Shutdown()
	srv.WaitForShutdown()
	if _, err := s.Get(t.Context(), "k"); err == nil {
		t.Error("get: want an error, not an absent fact")
	}
}

// A replica that lags behind does not hide the channel that a user has just used.
func TestReplicaThatLagsBehind(t *testing.T) {
	js := startServer(t)()
	s := newStore(js, newBucket(t, js, jetstream.KeyValueConfig{Bucket: "state"}))
	must(t, state.SetLastChannel(t.Context(), s, "s", state.Channel{Name: "telegram", ChatID: "7"}, false))
	bustest.Lag(t, js, "KV_state", "$KV.state.last_channel.s")
	for range 50 {
		if got, err := state.LastChannel(t.Context(), s, "s"); got.ChatID != "7" || err != nil {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
}

// startServer returns a function that connects to a new server.
func startServer(t *testing.T) (connect func() jetstream.JetStream) {
	srv := runServer(t)
	return func() jetstream.JetStream { return dial(t, srv) }
}

func runServer(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	must(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(3 * time.Minute) {
		t.Fatal("the server did not start")
	}
	return srv
}

func dial(t *testing.T, srv *server.Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return js
}

func newBucket(t *testing.T, js jetstream.JetStream, config jetstream.KeyValueConfig) jetstream.KeyValue {
	t.Helper()
	bucket, err := js.CreateKeyValue(t.Context(), config)
	must(t, err)
	return bucket
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
