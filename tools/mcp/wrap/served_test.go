package wrap

import (
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
