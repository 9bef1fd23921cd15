package state

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestKVStore(t *testing.T) {
	connect := startServer(t)
	var buckets atomic.Int64
	testStore(t, func(t *testing.T) func() Store {
		config := jetstream.KeyValueConfig{Bucket: fmt.Sprintf("state%d", buckets.Add(1))}
		newBucket(t, connect(), config)
		return func() Store {
			bucket, err := connect().KeyValue(t.Context(), config.Bucket)
			if err != nil {
				t.Fatal(err)
			}
			return NewKV(bucket)
		}
	})
}

// Another client may write the empty value: it must not look like a fact that
// can be neither created nor changed.
func TestKVEmptyValueOfAnotherClient(t *testing.T) {
	bucket := newBucket(t, startServer(t)(), jetstream.KeyValueConfig{Bucket: "state"})
	s := NewKV(bucket)
	if _, err := bucket.PutString(t.Context(), "k", ""); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "k"); got != (Fact{Key: "k"}) {
		t.Errorf("got %+v, want no fact", got)
	}
	if err := s.Update(t.Context(), "k", func(Fact) (string, error) { return "v", nil }); err != nil {
		t.Errorf("update: %v", err)
	}
	if got := get(t, s, "k"); got.Value != "v" {
		t.Errorf("got %+v", got)
	}
}

// Whatever an update does, it does it to the newest fact.
func TestKVUpdateSeesWhoCameBetween(t *testing.T) {
	s := NewKV(newBucket(t, startServer(t)(), jetstream.KeyValueConfig{Bucket: "state"}))
	for name, values := range map[string][3]string{ // before, between, the update's
		"create": {"", "between", "mine"}, "change": {"before", "between", "mine"},
		"remove": {"before", "between", ""}, "revive": {"before", "", "mine"},
	} {
		set(t, s, name, values[0])
		var seen []string
		err := s.Update(t.Context(), name, func(old Fact) (string, error) {
			seen = append(seen, old.Value)
			if len(seen) == 1 {
				set(t, s, name, values[1])
			}
			return values[2], nil
		})
		if err != nil || len(seen) != 2 || seen[0] != values[0] || seen[1] != values[1] {
			t.Errorf("%s: saw %q, %v, want %q", name, seen, err, values[:2])
		}
		if got := get(t, s, name).Value; got != values[2] {
			t.Errorf("%s: got %q, want %q", name, got, values[2])
		}
	}
}

func TestKVFull(t *testing.T) {
	s := NewKV(newBucket(t, startServer(t)(), jetstream.KeyValueConfig{Bucket: "state", MaxBytes: 4 << 10}))
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = s.Set(t.Context(), map[string]string{fmt.Sprintf("k%d", i): strings.Repeat("v", 100)})
	}
	updateErr := s.Update(t.Context(), "new", func(Fact) (string, error) { return strings.Repeat("v", 100), nil })
	for _, err := range []error{err, updateErr} {
		if err == nil || errors.Is(err, ErrFull) || !strings.Contains(err.Error(), `"state": the bucket is full; let it grow`) {
			t.Errorf("got %v, want an error that says what to do", err)
		}
	}
	// Nothing is removed in vain.
	if err := SetLastChannel(t.Context(), s, "new", Channel{Name: strings.Repeat("v", 100)}); err == nil {
		t.Error("set last channel: want an error")
	}
	if facts, err := s.List(t.Context(), ""); len(facts) < 10 || err != nil {
		t.Errorf("left %d facts, %v", len(facts), err)
	}
	set(t, s, "k0", "short") // what is there can still change
}

func TestKVServerGone(t *testing.T) {
	srv, js := startOne(t)
	s := NewKV(newBucket(t, js, jetstream.KeyValueConfig{Bucket: "state"}))
	set(t, s, "k", "v")
	srv.Shutdown()
	srv.WaitForShutdown()
	if _, err := s.Get(t.Context(), "k"); err == nil {
		t.Error("get: want an error, not an absent fact")
	}
	calls := 0
	err := s.Update(t.Context(), "k", func(Fact) (string, error) { calls++; return "w", nil })
	if err == nil || calls != 0 {
		t.Errorf("update: got %v after %d changes", err, calls)
	}
	if facts, err := s.List(t.Context(), ""); err == nil {
		t.Errorf("list: got %v, want an error, not an empty list", facts)
	}
}

// startServer returns what makes one more connection to a server of the test's.
func startServer(t *testing.T) (connect func() jetstream.JetStream) {
	srv := runServer(t)
	return func() jetstream.JetStream { return dial(t, srv) }
}

func startOne(t *testing.T) (*server.Server, jetstream.JetStream) {
	srv := runServer(t)
	return srv, dial(t, srv)
}

func runServer(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	must(t, err)
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
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
