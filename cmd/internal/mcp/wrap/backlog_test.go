package wrap

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/cmd/internal/mcp/wire"
)

// say sends a numbered message of the server that belongs to no request.
func say(t *testing.T, s *served, n, size int) {
	t.Helper()
	m := wire.Request("", "notifications/message", map[string]any{"n": n, "text": strings.Repeat("x", size)})
	if err := s.Send(m); err != nil {
		t.Fatal(err)
	}
}

// hear opens a stream and returns the numbers of its messages, up to one.
func hear(t *testing.T, url string, last int) (numbers []int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m struct {
			Params struct {
				N int `json:"n"`
			} `json:"params"`
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatal(err)
		}
		if numbers = append(numbers, m.Params.N); m.Params.N == last {
			return numbers
		}
	}
	t.Fatalf("the stream ended after %v (%v)", numbers, lines.Err())
	return nil
}

func numbered(from, to int) (numbers []int) {
	for n := from; n <= to; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// The last messages of a server wait for the next stream of the client, in their order.
func TestBacklog(t *testing.T) {
	t.Parallel()
	s := newServed("alice", false)
	srv := httptest.NewServer(http.HandlerFunc(s.stream))
	defer srv.Close()
	defer s.Close()
	for n := range 2 * maxBacklog {
		say(t, s, n, 10)
	}
	if got, want := hear(t, srv.URL, 2*maxBacklog-1), numbered(maxBacklog, 2*maxBacklog-1); !slices.Equal(got, want) {
		t.Errorf("the stream had %v, want %v", got, want)
	}

	for began := time.Now(); ; time.Sleep(time.Millisecond) { // until the server notices that the stream has ended
		s.mu.Lock()
		ended := s.events == nil
		s.mu.Unlock()
		if ended {
			break
		}
		if time.Since(began) > testTimeout {
			t.Fatal("the stream does not end")
		}
	}
	// The messages together, or one alone, are too large.
	for n := range 4 {
		say(t, s, n, maxBacklogBytes/3)
	}
	say(t, s, 4, maxBacklogBytes)
	say(t, s, 5, 10)
	if got, want := hear(t, srv.URL, 5), []int{2, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("the stream had %v, want %v", got, want)
	}
}

// A message that cannot be sent on a stream, because its client is gone, waits for the next
// one.
func TestBacklogOfAStreamWithoutClient(t *testing.T) {
	t.Parallel()
	s := newServed("alice", false)
	srv := httptest.NewServer(http.HandlerFunc(s.stream))
	defer srv.Close()
	defer s.Close()
	for n, w := range []http.ResponseWriter{nil, brokenWriter{httptest.NewRecorder()}} {
		s.events = &exchange{done: make(chan struct{}), w: w, flowing: true}
		if w == nil {
			close(s.events.done)
		}
		say(t, s, n, 10)
	}
	if got, want := hear(t, srv.URL, 1), []int{0, 1}; !slices.Equal(got, want) {
		t.Errorf("the stream had %v, want %v", got, want)
	}
}

// brokenWriter is a connection whose client is gone.
type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) FlushError() error { return http.ErrHandlerTimeout }
