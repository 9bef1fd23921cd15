package bustest

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

// Proxy forwards connections to a server. A test can make it hold back or drop what
// passes.
type Proxy struct {
	listener net.Listener
	server   *url.URL
	wg       sync.WaitGroup
	affected atomic.Int64 // reads that were held back or dropped

	mu          sync.Mutex
	cond        *sync.Cond
	hold        bool // hold back everything, lose nothing
	dropReplies bool // lose everything that the server sends
	conns       map[net.Conn]struct{}
}

// NewProxy starts a proxy for s, which must listen.
func NewProxy(t testing.TB, s interface{ URL() string }) *Proxy {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, server: u, conns: map[net.Conn]struct{}{}}
	p.cond = sync.NewCond(&p.mu)
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.Heal()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Host is the address of the proxy.
func (p *Proxy) Host() string { return p.listener.Addr().String() }

// Connect connects through the proxy, with a short timeout and lease.
func (p *Proxy) Connect(t testing.TB) *bus.Bus {
	t.Helper()
	u := *p.server
	u.Host = p.Host()
	var b *bus.Bus
	WaitUntil(t, "a connection", func() bool { // a busy machine can take longer than the timeout
		var err error
		b, err = bus.Connect(t.Context(), bus.Config{Server: u.String(), Timeout: 2 * time.Second, Lease: time.Second})
		return err == nil
	})
	t.Cleanup(b.Close)
	return b
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server.Host)
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

func (p *Proxy) copy(to, from net.Conn, fromServer bool) {
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

// pass waits while the proxy holds everything back, and reports whether to forward.
func (p *Proxy) pass(fromServer bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold || p.dropReplies && fromServer {
		p.affected.Add(1)
	}
	for p.hold {
		p.cond.Wait()
	}
	return !p.dropReplies || !fromServer
}

// Hold holds back everything until Heal.
func (p *Proxy) Hold() { p.set(true, false) }

// DropReplies drops everything that the server sends until Heal.
func (p *Proxy) DropReplies() { p.set(false, true) }

// Heal forwards everything again, also what Hold held back.
func (p *Proxy) Heal() { p.set(false, false) }

// Affected reports whether anything was held back or dropped so far.
func (p *Proxy) Affected() bool { return p.affected.Load() > 0 }

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *Proxy) set(hold, dropReplies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.dropReplies = hold, dropReplies
	p.cond.Broadcast()
}
