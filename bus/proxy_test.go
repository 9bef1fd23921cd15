package bus_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
)

// proxy stands between a client and a server, and misbehaves when told to.
type proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup
	held     atomic.Int64 // chunks that wait or were dropped

	mu    sync.Mutex
	cond  *sync.Cond
	hold  bool // nothing passes, and nothing is lost
	deaf  bool // what the server says is lost
	conns map[net.Conn]struct{}
}

func newProxy(t *testing.T, s *bus.Server) *proxy {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: u.Host, conns: map[net.Conn]struct{}{}}
	p.cond = sync.NewCond(&p.mu)
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.heal()
		p.cut()
		p.wg.Wait()
	})
	return p
}

// connect connects through the proxy.
func (p *proxy) connect(t *testing.T, s *bus.Server) *bus.Bus {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.listener.Addr().String()
	b, err := bus.Connect(t.Context(), bus.Config{Server: u.String(), Timeout: 500 * time.Millisecond, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(server, client, false) })
		p.wg.Go(func() { p.copy(client, server, true) })
	}
}

func (p *proxy) copy(to, from net.Conn, fromServer bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if p.pass(fromServer) {
			_, err = io.Writer(to).Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// pass waits while nothing may pass, and reports whether this may.
func (p *proxy) pass(fromServer bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold || p.deaf && fromServer {
		p.held.Add(1)
	}
	for p.hold {
		p.cond.Wait()
	}
	return !p.deaf || !fromServer
}

func (p *proxy) set(hold, deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.deaf = hold, deaf
	p.cond.Broadcast()
}

func (p *proxy) heal() { p.set(false, false) }

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}
