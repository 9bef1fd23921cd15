package wrap

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// A client that is gone, and whose request has no answer, gets no messages on that request:
// they wait for its next stream. It does not keep its session open either.
func TestRequestOfAClientThatIsGone(t *testing.T) {
	s := newServed("alice", false)
	e := &exchange{id: "1", done: make(chan struct{}), w: httptest.NewRecorder()}
	s.open[`"http-1"`] = e
	e.finish()
	m, err := wire.Request("", "notifications/message", map[string]any{"data": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(m); err != nil || len(s.backlog) != 1 {
		t.Errorf("%d messages wait (%v)", len(s.backlog), err)
	}
	go s.closeWhenIdle(t.Context(), 10*time.Millisecond)
	select {
	case <-s.closed:
	case <-time.After(10 * time.Second):
		t.Error("the session stays open")
	}
}

// The sessions of one owner leave room for those of others.
func TestOneOwnerDoesNotTakeAllSessions(t *testing.T) {
	h := NewHandler(HandlerConfig{Proxy: func(string) Config {
		return Config{Server: func(ctx context.Context) (Link, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
	}})
	defer h.Close()
	for i := range maxOfOwner {
		if _, err := h.open(fmt.Sprint("a", i), fmt.Sprint("alice--", i), "alice", i%2 == 0); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	if _, err := h.open("more", "alice--more", "alice", false); !errors.Is(err, errTooMany) {
		t.Errorf("one more session: %v, want %v", err, errTooMany)
	}
	if _, err := h.open("b", "bob", "bob", false); err != nil {
		t.Errorf("a session of another owner: %v", err)
	}
}
