package wrap

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/disk"
)

// late is a client whose request is read when the proxy has ended.
type late struct {
	ended, handled chan struct{}
	once           sync.Once
	request        *wire.Message
}

func (l *late) Receive() (*wire.Message, error) {
	<-l.ended
	if m := l.request; m != nil {
		l.request = nil
		return m, nil
	}
	close(l.handled)
	return nil, io.EOF
}

func (l *late) Send(*wire.Message) error { return nil }

func (l *late) Close() { l.once.Do(func() { close(l.ended) }) }

// listedStore counts how often it is listed.
type listedStore struct {
	offload.Store
	lists atomic.Int32
}

func (s *listedStore) List(ctx context.Context, session string) iter.Seq2[offload.Record, error] {
	s.lists.Add(1)
	return s.Store.List(ctx, session)
}

// A proxy that has ended starts no work: its store may be closed.
func TestNoWorkAfterTheEnd(t *testing.T) {
	t.Parallel()
	files, err := disk.Open(t.TempDir(), offload.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	store := &listedStore{Store: files}
	request := wire.Request("1", "resources/list", nil)
	client := &late{ended: make(chan struct{}), handled: make(chan struct{}), request: request}
	p, err := newProxy(client, Config{Name: "test", Session: "s", Store: store, Server: func(ctx context.Context) (Link, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.capabilities = map[string]json.RawMessage{} // the proxy answers the request
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.run(ctx); err != nil {
		t.Fatal(err)
	}
	<-client.handled
	p.work.Wait()
	if n := store.lists.Load(); n != 0 {
		t.Errorf("the store was read %d times", n)
	}
}

// A client that says that it is initialized while a new process starts says so to the new one.
func TestInitializedWhileTheServerStarts(t *testing.T) {
	t.Parallel()
	client, far := Pipe()
	servers := make(chan Link, 2)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), far, Config{Name: "test", Server: func(context.Context) (Link, error) {
			near, server := Pipe()
			servers <- server
			return near, nil
		}})
	}()
	send := func(to Link, m *wire.Message) {
		t.Helper()
		if err := to.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(from Link) *wire.Message {
		t.Helper()
		m, err := from.Receive()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	answer := func(server Link) {
		t.Helper()
		send(server, wire.Response(receive(server).ID, fields{"protocolVersion": "2025-06-18", "capabilities": fields{}}))
	}
	send(client, wire.Request("1", "initialize", fields{"protocolVersion": "2025-06-18"}))
	first := <-servers
	answer(first)
	receive(client)
	first.Close()
	second := <-servers
	send(client, wire.Request("", "notifications/initialized", nil))
	send(client, wire.Request("2", "ping", nil))
	send(client, wire.Request("2", "ping", nil))
	receive(client) // the proxy refuses the second one, so it has read the others
	answer(second)
	for _, want := range []string{"notifications/initialized", "ping"} {
		if m := receive(second); m.Method != want {
			t.Errorf("the new process gets %s, want %s", m.Method, want)
			break
		}
	}
	client.Close()
	second.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
