package wrap

import "github.com/stevedore-bus/stevedore/tools/mcp/wire"

// backlog has the last messages of a server that wait for the client's next stream.
type backlog struct {
	messages []*wire.Message
	bytes    int64
}

const (
	// maxBacklog is how many messages wait for a stream, and maxBacklogBytes how many bytes
	// they have together.
	maxBacklog      = 100
	maxBacklogBytes = 8 << 20
)

// add appends a copy of a message, and drops the oldest messages that are too many.
func (b *backlog) add(m *wire.Message) {
	if m.Size() > maxBacklogBytes {
		return
	}
	copied, err := rewrite(m)
	if err != nil {
		return
	}
	b.messages, b.bytes = append(b.messages, copied), b.bytes+copied.Size()
	for len(b.messages) > maxBacklog || b.bytes > maxBacklogBytes {
		b.next().Close()
	}
}

// next removes and returns the oldest message; nil if there is none.
func (b *backlog) next() *wire.Message {
	if len(b.messages) == 0 {
		return nil
	}
	m := b.messages[0]
	b.messages, b.bytes = b.messages[1:], b.bytes-m.Size()
	return m
}

// putBack makes a message the oldest one again.
func (b *backlog) putBack(m *wire.Message) {
	b.messages, b.bytes = append([]*wire.Message{m}, b.messages...), b.bytes+m.Size()
}

// clear removes all messages.
func (b *backlog) clear() {
	for m := b.next(); m != nil; m = b.next() {
		m.Close()
	}
}

// flush sends the backlog on the stream, if there is one. What cannot be sent waits for the
// next stream.
func (s *served) flush() {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	for {
		s.mu.Lock()
		e := s.events
		var m *wire.Message
		if e != nil && !e.ended() {
			m = s.backlog.next()
		}
		s.mu.Unlock()
		switch {
		case m == nil:
			return
		case e.write(m):
			m.Close()
			continue
		}
		e.finish() // its client is gone
		s.mu.Lock()
		s.backlog.putBack(m)
		s.mu.Unlock()
	}
}
