package simulate

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus/embedded"
)

// link is the network between one process and the server. It implements
// nats.InProcessConnProvider.
//
// Both directions are buffered by goroutines of their own, and a new connection fails at once while
// the link is not whole: a goroutine that blocks while nats.go or the server holds a lock makes
// others wait for a mutex, which does not block durably, so virtual time would stand still.
type link struct {
	server func() *embedded.Server // nil while no server runs

	mu    sync.Mutex
	cond  *sync.Cond // signals each change of what mu guards, in the connections too
	state linkState
	broke time.Time // when the link was last broken, or a connection ended
	conns map[*linkConn]bool
	left  int       // writes with the mark until the next state; 0 if there is none
	mark  string    // in what the process sends to the subjects that count
	next  linkState // of a process that dies or freezes between two writes
}

type linkState int

const (
	whole    linkState = iota
	down               // connections end, and new ones fail
	silent             // bytes wait in both directions
	deaf               // bytes to the process wait
	mute               // bytes to the server wait
	finished           // down for good: the process has died
)

func newLink(server func() *embedded.Server) *link {
	l := &link{server: server, conns: map[*linkConn]bool{}}
	l.cond = sync.NewCond(&l.mu)
	return l
}

// set changes the state, unless the process has died.
func (l *link) set(state linkState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != finished {
		l.state, l.left = state, 0
	}
	if l.state == down || l.state == finished {
		l.disconnectLocked()
	}
	l.broke = time.Now()
	l.cond.Broadcast()
}

// disconnect ends all connections.
func (l *link) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disconnectLocked()
}

func (l *link) disconnectLocked() {
	for c := range l.conns {
		c.closeLocked()
	}
	clear(l.conns)
	l.broke = time.Now()
	l.cond.Broadcast()
}

// setAfter changes the state after the process has sent something with the mark n more times.
func (l *link) setAfter(n int, mark string, state linkState) {
	if n == 0 {
		l.set(state)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left, l.mark, l.next = n, mark, state
}

func (l *link) died() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == finished
}

// brokeSince says whether the link was ever broken since a time.
func (l *link) brokeSince(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state != whole || !l.broke.Before(t)
}

func (l *link) holdsIn() bool  { return l.state == silent || l.state == deaf }
func (l *link) holdsOut() bool { return l.state == silent || l.state == mute }

var errDown = errors.New("the link is down")

// InProcessConn implements nats.InProcessConnProvider.
func (l *link) InProcessConn() (net.Conn, error) {
	s := l.server()
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	if s == nil || state != whole {
		return nil, errDown
	}
	c, err := s.InProcessConn()
	if err != nil {
		return nil, err
	}
	conn := &linkConn{Conn: c, link: l}
	l.mu.Lock()
	l.conns[conn] = true
	l.mu.Unlock()
	go conn.receive()
	go conn.send()
	return conn, nil
}

// linkConn is a connection over a link. link.mu guards its fields.
type linkConn struct {
	net.Conn
	link    *link
	in, out []byte
	wrote   bool
	greeted bool // it read an answer: until then, nats.go waits with its lock
	ended   bool
}

// receive reads what the server sends at once.
func (c *linkConn) receive() {
	b := make([]byte, 32<<10)
	for {
		n, err := c.Conn.Read(b)
		c.link.mu.Lock()
		c.in = append(c.in, b[:n]...)
		if err != nil {
			c.closeLocked()
		}
		c.link.cond.Broadcast()
		c.link.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// send writes what the process sent.
func (c *linkConn) send() {
	for {
		c.link.mu.Lock()
		for (len(c.out) == 0 || c.link.holdsOut()) && !c.ended {
			c.link.cond.Wait()
		}
		out, ended, last := c.out, c.ended, c.link.state == finished || c.link.state == down
		c.out = nil
		c.link.mu.Unlock()
		if ended {
			return
		}
		if _, err := c.Conn.Write(out); err != nil {
			return
		}
		if last {
			c.link.disconnect()
			return
		}
	}
}

func (c *linkConn) Read(b []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for (len(c.in) == 0 || c.link.holdsIn()) && !c.ended {
		c.link.cond.Wait()
	}
	if c.ended {
		return 0, net.ErrClosed
	}
	c.greeted = c.wrote
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *linkConn) Write(b []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.ended || c.link.state == finished {
		return 0, net.ErrClosed
	}
	c.out = append(c.out, b...)
	c.link.cond.Broadcast()
	if c.link.left > 0 && c.greeted && bytes.Contains(b, []byte(c.link.mark)) {
		if c.link.left--; c.link.left == 0 {
			c.link.state, c.link.broke = c.link.next, time.Now() // down or dead, send ends the connection once the server has these bytes
		}
	}
	c.wrote = true
	return len(b), nil
}

func (c *linkConn) Close() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	delete(c.link.conns, c)
	c.closeLocked()
	c.link.cond.Broadcast()
	return nil
}

func (c *linkConn) closeLocked() {
	if !c.ended {
		c.ended = true
		c.Conn.Close()
	}
}
