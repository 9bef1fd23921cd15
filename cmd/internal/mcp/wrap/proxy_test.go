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
