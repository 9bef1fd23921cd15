package integration

import (
	"net"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// routeLinks forwards the routes between the servers of a cluster. A test can hold back
// what one server sends to another; like TCP on a broken network, it loses nothing.
type routeLinks struct {
	mu   sync.Mutex
	cond *sync.Cond
	held map[[2]string]bool // from, to
	done bool
}

func newRouteLinks() *routeLinks {
	l := &routeLinks{held: map[[2]string]bool{}}
	l.cond = sync.NewCond(&l.mu)
	return l
}

// hold holds back everything from one server to another.
func (l *routeLinks) hold(from, to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[[2]string{from, to}] = true
}

// heal forwards everything again.
func (l *routeLinks) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.held)
	l.cond.Broadcast()
}

// await waits until bytes may pass, and reports whether the test is still running.
func (l *routeLinks) await(from, to string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held[[2]string{from, to}] && !l.done {
		l.cond.Wait()
	}
	return !l.done
}

// routeLink is the address at which the other servers reach one server.
type routeLink struct {
	*routeLinks
	listener net.Listener
	server   string
	port     int
}

func (l *routeLinks) listen(t *testing.T, name string, port int) *routeLink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	link := &routeLink{l, listener, name, port}
	go link.serve()
	t.Cleanup(func() {
		listener.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done = true
		l.cond.Broadcast()
	})
	return link
}

func (l *routeLink) address() string { return l.listener.Addr().String() }

func (l *routeLink) serve() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port)))
		if err != nil {
			from.Close()
			continue
		}
		go l.forward(from, to)
	}
}

// serverName is in the first lines that a server sends on a route.
var serverName = regexp.MustCompile(`"server_name":"(\w+)"`)

// forward copies in both directions. The server that dialed tells its name.
func (l *routeLink) forward(dialed, accepted net.Conn) {
	name := make(chan string, 1)
	go func() { // answers of this server pass until the other one is known
		defer dialed.Close()
		defer accepted.Close()
		var peer string
		l.copy(dialed, accepted, func([]byte) bool {
			select {
			case peer = <-name:
			default:
			}
			return peer == "" || l.await(l.server, peer)
		})
	}()
	defer dialed.Close()
	defer accepted.Close()
	var peer string
	var first []byte
	l.copy(accepted, dialed, func(data []byte) bool {
		if peer == "" {
			first = append(first, data...)
			if m := serverName.FindSubmatch(first); m != nil {
				peer, first = string(m[1]), nil
				name <- peer
			}
		}
		return peer == "" || l.await(peer, l.server)
	})
}

// copy forwards each piece of data that pass lets through.
func (l *routeLink) copy(to, from net.Conn, pass func([]byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !pass(buf[:n]) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
