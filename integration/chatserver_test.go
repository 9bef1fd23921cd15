package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// chatMessage is a message of a user or of the bot.
type chatMessage struct {
	ID, Chat, Author, Text string
	Thread                 string // in Slack, whose threads are no chats
	Form                   string // with which the bot sent it
	Edits                  int
	Gone                   bool
}

// chatServer is what the fakes of chat platforms share.
type chatServer struct {
	*httptest.Server

	mu       sync.Mutex
	changed  chan struct{} // closed when something changes
	messages []*chatMessage
	clock    int
	command  any  // what the platform says next over the connection
	failures int  // of the next requests
	silent   bool // the connections say nothing
	revoked  bool // the token of the bot
	dials    int  // connections so far
	problems []string
	cut      context.CancelFunc // ends the connection
	ctx      context.Context
}

func (s *chatServer) start(t *testing.T, handler http.Handler) {
	t.Helper()
	s.changed = make(chan struct{})
	s.ctx = t.Context()
	s.Server = httptest.NewServer(handler)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
}

// problem records what a strict platform rejects.
func (s *chatServer) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// fail answers a request with an error, if one is due.
func (s *chatServer) fail(w http.ResponseWriter) bool {
	if s.failures == 0 {
		return false
	}
	s.failures--
	if s.failures%2 == 0 {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"ok":false,"error":"ratelimited"}`)
	} else {
		w.WriteHeader(http.StatusBadGateway)
	}
	return true
}

// wake wakes the connections. The caller holds the lock, or nobody does.
func (s *chatServer) wake() {
	select {
	case <-s.changed:
	default:
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

func (s *chatServer) find(chat, id string) *chatMessage {
	i := slices.IndexFunc(s.messages, func(m *chatMessage) bool { return m.Chat == chat && m.ID == id && !m.Gone })
	if i < 0 {
		return nil
	}
	return s.messages[i]
}

// connected returns the context of a connection, which drop ends.
func (s *chatServer) connected(conn *websocket.Conn) context.Context {
	ctx, cancel := context.WithCancel(s.ctx)
	context.AfterFunc(ctx, func() { _ = conn.CloseNow() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = cancel
	s.dials++
	for s.silent && ctx.Err() == nil {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return ctx
}

// hush makes the connections silent, or lets them speak.
func (s *chatServer) hush(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
	s.wake()
}

// revoke takes the token of the bot back, or accepts it again.
func (s *chatServer) revoke(revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = revoked
}

// drop ends the connection.
func (s *chatServer) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		s.cut()
	}
}

// tell tells the bot something over its connection.
func (s *chatServer) tell(command any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command = command
	s.wake()
}

// shown returns what a chat shows of the bot.
func (s *chatServer) shown(chat string) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		if strings.TrimSuffix(m.Chat+"/"+m.Thread, "/") == chat && m.Author == "UBOT" && !m.Gone {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// awaitShown waits until a chat shows exactly these texts of the bot.
func (s *chatServer) awaitShown(t *testing.T, chat string, want ...string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !slices.Equal(s.shown(chat), want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the chat %s shows %q, want %q; problems %q", chat, s.shown(chat), want, s.problems)
		}
	}
}

// check fails the test if the bot did what a strict platform rejects, or answered a stranger.
func (s *chatServer) check(t *testing.T, stranger string) {
	t.Helper()
	if got := s.shown(stranger); len(got) > 0 {
		t.Errorf("a stranger got %q", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) > 0 {
		t.Errorf("problems: %s", strings.Join(s.problems, "\n"))
	}
}
