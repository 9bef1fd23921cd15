package wrap

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/tools/mcp/wire"
)

// exchange is a request of a client, or its GET.
type exchange struct {
	id, token string // as the client knows them
	done      chan struct{}

	mu      sync.Mutex
	w       http.ResponseWriter // nil when the exchange has ended
	flowing bool                // events were sent
}

// writeTimeout is how long a client may take to receive a message. The messages behind
// it wait.
const writeTimeout = 30 * time.Second

// write sends a message: as the only content if it is the response and nothing was
// sent before, otherwise as an event. It returns false if the client is known to be gone.
func (e *exchange) write(m *wire.Message) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w == nil {
		return false
	}
	c, done := e.limit()
	defer done()
	if m.IsResponse() && !e.flowing {
		e.w.Header().Set("Content-Type", "application/json")
		return m.WriteEdited(e.w, m.Edits) == nil
	}
	if !e.flowing {
		e.flowing = true
		e.w.Header().Set("Content-Type", "text/event-stream")
	}
	_, _ = io.WriteString(e.w, "event: message\ndata: ")
	_ = m.WriteEdited(e.w, m.Edits)
	_, _ = io.WriteString(e.w, "\n")
	err := c.Flush() // fails after a write that failed
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// limit sets a deadline for the writes that follow; the caller calls done after them.
func (e *exchange) limit() (c *http.ResponseController, done func()) {
	c = http.NewResponseController(e.w)
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
	return c, func() { _ = c.SetWriteDeadline(time.Time{}) }
}

func (e *exchange) comment() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w != nil {
		c, done := e.limit()
		defer done()
		_, _ = io.WriteString(e.w, ": \n\n")
		_ = c.Flush()
	}
}

// finish ends the exchange: nothing is written after it.
func (e *exchange) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w != nil {
		e.w = nil
		close(e.done)
	}
}

// ended reports whether nothing can be written any more.
func (e *exchange) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}
