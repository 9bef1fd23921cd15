package integration

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientLink is the network between one process and all servers. A test can cut it, slow
// it down, hold back what one side sends, or let only one side notice that a connection
// has ended.
type clientLink struct {
	urls string

	mu    sync.Mutex
	cond  *sync.Cond
	held  [2]bool       // by direction
	delay time.Duration // for each KiB
	done  bool
	conns map[*linkConn]bool
}

// Directions of a link.
const (
	toServer = iota
	toClient
)

type linkConn struct {
	sides [2]net.Conn // that of the server, that of the client
	dead  net.Conn    // of a half-open connection, the side that is closed
}

// newClientLink returns a link to servers, given as HOST:PORT.
func newClientLink(t *testing.T, servers ...string) *clientLink {
	t.Helper()
	l := &clientLink{conns: map[*linkConn]bool{}}
	l.cond = sync.NewCond(&l.mu)
	var urls []string
	for _, server := range servers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go l.serve(listener, server)
		t.Cleanup(func() { listener.Close() })
		urls = append(urls, "nats://"+listener.Addr().String())
	}
	l.urls = strings.Join(urls, ",")
	t.Cleanup(func() {
		l.cut()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done = true
		l.cond.Broadcast()
	})
	return l
}

func (l *clientLink) serve(listener net.Listener, server string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			client.Close()
			continue
		}
		c := &linkConn{sides: [2]net.Conn{upstream, client}}
		l.mu.Lock()
		l.conns[c] = true
		l.mu.Unlock()
		go l.copy(c, toServer)
		go l.copy(c, toClient)
	}
}

// copy forwards in one direction until a side ends the connection. Then it ends the other
// side too, unless the connection is half-open: then it drops what the other side sends.
func (l *clientLink) copy(c *linkConn, direction int) {
	to, from := c.sides[direction], c.sides[1-direction]
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil && l.isDead(c, from) {
			return
		}
		if err != nil {
			break
		}
		if err := l.pass(to, buf[:n], direction); err != nil && !l.isDead(c, to) {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.close()
	delete(l.conns, c)
}

func (l *clientLink) isDead(c *linkConn, side net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return side == c.dead
}

func (l *clientLink) pass(to net.Conn, data []byte, direction int) error {
	for len(data) > 0 {
		l.mu.Lock()
		for l.held[direction] && !l.done {
			l.cond.Wait()
		}
		piece, delay := data, l.delay
		l.mu.Unlock()
		if delay > 0 {
			piece = data[:min(len(data), 1<<10)]
			time.Sleep(delay)
		}
		if _, err := to.Write(piece); err != nil {
			return err
		}
		data = data[len(piece):]
	}
	return nil
}

func (c *linkConn) close() {
	for _, side := range c.sides {
		side.Close()
	}
}

// cut ends all connections.
func (l *clientLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.close()
	}
	clear(l.conns)
}

// halve ends all connections so that only one end notices it: the servers with toServer,
// the process with toClient. The other end learns of it when it gets no answer.
func (l *clientLink) halve(direction int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.dead == nil {
			c.dead = c.sides[direction]
			c.dead.Close()
		}
	}
}

// hold holds back what is sent in a direction; like TCP on a broken network, it loses
// nothing.
func (l *clientLink) hold(direction int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[direction] = true
}

// slow lets each KiB take so long.
func (l *clientLink) slow(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

// heal forwards everything again at once. It does not repair connections.
func (l *clientLink) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.delay = [2]bool{}, 0
	l.cond.Broadcast()
}

// A process behind each broken link reaches the server again, and a half-open connection
// is silent, not closed.
func TestClientLink(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	l := newClientLink(t, server.Addr().String())
	dial := func() (client, served net.Conn) {
		client, err := net.Dial("tcp", strings.TrimPrefix(l.urls, "nats://"))
		if err != nil {
			t.Fatal(err)
		}
		return client, <-accepted
	}
	arrives := func(to, from net.Conn) error {
		if _, err := from.Write([]byte("x")); err != nil {
			return err
		}
		_ = to.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err := to.Read(make([]byte, 1))
		return err
	}
	client, served := dial()
	l.slow(time.Millisecond)
	if err := arrives(served, client); err != nil {
		t.Error("over a slow link:", err)
	}
	l.hold(toServer)
	if arrives(client, served) != nil || arrives(served, client) == nil {
		t.Error("only what the client sends must be held back")
	}
	l.heal()
	for range 2 { // the byte that was held back, and the next one
		if err := arrives(served, client); err != nil {
			t.Error("after the link was healed:", err)
		}
	}
	_ = served.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = served.Read(make([]byte, 1)) // the last one
	l.halve(toServer)
	if err := arrives(served, client); err == nil {
		t.Error("the server still reads from a half-open connection")
	}
	_ = client.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := client.Read(make([]byte, 1)); err == nil || !err.(net.Error).Timeout() {
		t.Errorf("the client of a half-open connection reads %v, want a timeout", err)
	}
	client, served = dial()
	if err := arrives(served, client); err != nil { // the link knows the connection now
		t.Error("over a new connection:", err)
	}
	l.cut()
	if arrives(client, served) == nil || arrives(served, client) == nil {
		t.Error("the connection goes on after the cut")
	}
}
