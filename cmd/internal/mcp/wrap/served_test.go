package wrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// A client that is gone, and whose request has no answer, gets no messages on that request:
// they wait for its next stream. It does not keep its session open either.
func TestRequestOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	s := newServed("alice", false)
	e := &exchange{id: "1", done: make(chan struct{}), w: httptest.NewRecorder()}
	s.open[`"http-1"`] = e
	e.finish()
	m := wire.Request("", "notifications/message", map[string]any{"data": "x"})
	if err := s.Send(m); err != nil || len(s.backlog) != 1 {
		t.Errorf("%d messages wait (%v)", len(s.backlog), err)
	}
	go s.closeWhenIdle(t.Context(), 10*time.Millisecond)
	select {
	case <-s.closed:
	case <-time.After(testTimeout):
		t.Error("the session stays open")
	}
}

// A session whose call runs in the background stays: its result was promised to the client.
func TestSessionOfACallInTheBackground(t *testing.T) {
	t.Parallel()
	h := NewHandler(HandlerConfig{Proxy: func(string) Config {
		return Config{Server: func(ctx context.Context) (Link, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
	}})
	t.Cleanup(h.Close)
	s, err := h.open("key", "alice", "alice", false)
	if err != nil {
		t.Fatal(err)
	}
	j := &job{owner: &proxy{client: Draining(s, 0, func() {})}, done: make(chan struct{})}
	h.jobs.Store("alice/a", j)
	go s.closeWhenIdle(t.Context(), 4*time.Millisecond)
	select {
	case <-s.closed:
		t.Fatal("the session has ended")
	case <-time.After(100 * time.Millisecond):
	}
	close(j.done)
	select {
	case <-s.closed:
	case <-time.After(testTimeout):
		t.Error("the session stays open")
	}
}

// The stream of a subscription is kept open as that of a GET; an answer that is not a stream gets no comments.
func TestSubscriptionIsKeptOpen(t *testing.T) {
	t.Parallel()
	for method, text := range map[string]string{wire.MethodListen: "event: message\ndata: {}\n\n: \n\n: \n\n", "ping": ""} {
		synctest.Test(t, func(t *testing.T) {
			s, w := newServed("alice", true), httptest.NewRecorder()
			ctx, cancel := context.WithTimeout(t.Context(), 2*keepAlive+time.Second)
			defer cancel()
			go func() {
				m, _ := s.Receive()
				if text != "" {
					s.open[m.ID].write(&wire.Message{Method: "x"})
				}
				_, _ = s.Receive() // the cancellation
			}()
			s.handle(w, httptest.NewRequestWithContext(ctx, "POST", "/", nil), wire.Request("1", method, nil))
			if got := w.Body.String(); got != text {
				t.Errorf("%s: %q, want %q", method, got, text)
			}
		})
	}
}

// A client cancels only its own requests: not by the id of another client's request that the
// proxy sees, and not by an id of a client with which it shares the session.
func TestCancellationOfAnotherClientsRequest(t *testing.T) {
	t.Parallel()
	for id, cancelled := range map[string]bool{`"http-1"`: false, "7": false, "8": true} {
		for _, shared := range []bool{false, true} {
			s := newServed("alice", shared)
			s.open[`"http-1"`] = &exchange{id: "8", done: make(chan struct{}), w: httptest.NewRecorder()}
			passed := make(chan *wire.Message, 1)
			go func() {
				m, _ := s.Receive()
				passed <- m
			}()
			m := wire.Request("", "notifications/cancelled", map[string]any{"requestId": json.RawMessage(id)})
			w := httptest.NewRecorder()
			s.handle(w, httptest.NewRequestWithContext(t.Context(), "POST", "/", nil), m)
			s.Close()
			if got := <-passed; w.Code != 202 || (got != nil) != (cancelled && !shared) {
				t.Errorf("shared %v, id %s: status %d, passed on: %v", shared, id, w.Code, got != nil)
			}
		}
	}
}

// The sessions of one owner leave room for those of others.
func TestOneOwnerDoesNotTakeAllSessions(t *testing.T) {
	t.Parallel()
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
