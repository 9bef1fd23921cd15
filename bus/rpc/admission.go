package rpc

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// admission decides which requests an endpoint handles now, so that a flood of one client
// does not delay the others. A client may use most of the slots while the others use none,
// and never all of them. Its further requests wait; if too many wait, they are refused.
// When a slot becomes free, the clients that wait get one in turn.
type admission struct {
	mu      sync.Mutex
	slots   int
	running int
	bytes   int // of the requests that wait
	clients map[string]*client
	turn    []*client // those with requests that wait

	// idle passes starts to goroutines that have ended one. A new goroutine grows its stack
	// several times during a call.
	idle   chan func()
	idling atomic.Int32
	stop   <-chan struct{} // ends idle goroutines
}

type client struct {
	name    string
	running int
	queue   []waitingRequest
	bytes   int // of the queue
}

type waitingRequest struct {
	size  int
	start func()
}

const (
	// maxWaitingBytes limits the requests that wait, per endpoint. One client may use half
	// of it. A request counts at least minRequestBytes, so 32,768 can wait.
	maxWaitingBytes = 64 << 20
	minRequestBytes = 2 << 10
	// maxIdle limits the idle goroutines of an endpoint.
	maxIdle = 64
)

// CodeBusy is the error code if too many requests of a client wait.
const CodeBusy = "busy"

var errBusy = tools.Errorf(CodeBusy, "too many requests wait for an answer; send this one again later, or fewer at once")

func newAdmission(slots int, stop <-chan struct{}) *admission {
	return &admission{slots: slots, clients: map[string]*client{}, idle: make(chan func()), stop: stop}
}

// admit calls start now or later, in another goroutine, or returns errBusy. Each start
// must be followed by release.
func (a *admission) admit(name string, size int, start func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	size = max(size, minRequestBytes)
	c := a.clients[name]
	if c == nil {
		c = &client{name: name}
		a.clients[name] = c
	}
	switch {
	case len(c.queue) == 0 && a.mayStart(c):
		a.start(c, start)
	case a.bytes+size > maxWaitingBytes || c.bytes+size > maxWaitingBytes/2:
		a.forget(c)
		return errBusy
	default:
		if len(c.queue) == 0 {
			a.turn = append(a.turn, c)
		}
		c.queue = append(c.queue, waitingRequest{size, start})
		a.bytes, c.bytes = a.bytes+size, c.bytes+size
	}
	return nil
}

// mayStart reports whether a client may use another slot: at most three for each free one.
func (a *admission) mayStart(c *client) bool { return c.running < 3*(a.slots-a.running) }

func (a *admission) start(c *client, start func()) {
	a.running, c.running = a.running+1, c.running+1
	select {
	case a.idle <- start:
	default:
		go a.work(start)
	}
}

// work calls start. Then it waits for another function to call, until there are enough idle
// goroutines or stop is closed.
func (a *admission) work(start func()) {
	for start != nil {
		start()
		start = a.next()
	}
}

func (a *admission) next() (start func()) {
	defer a.idling.Add(-1)
	if a.idling.Add(1) > maxIdle {
		return nil
	}
	select {
	case start = <-a.idle:
	case <-a.stop:
	}
	return start
}

// release ends a request of a client.
func (a *admission) release(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.clients[name]
	a.running, c.running = a.running-1, c.running-1
	a.forget(c)
	for range len(a.turn) {
		if a.running == a.slots {
			return
		}
		next := a.turn[0]
		a.turn = a.turn[1:]
		if a.mayStart(next) {
			request := next.queue[0]
			next.queue = next.queue[1:]
			a.bytes, next.bytes = a.bytes-request.size, next.bytes-request.size
			a.start(next, request.start)
		}
		if len(next.queue) > 0 {
			a.turn = append(a.turn, next)
		}
	}
}

// forget removes a client without requests.
func (a *admission) forget(c *client) {
	if c.running == 0 && len(c.queue) == 0 {
		delete(a.clients, c.name)
	}
}

// clientOf names the client of a request: the session of its subject, which permissions
// protect. In the short form, it is the inbox of the connection that sent the request, or
// the queue if another account did.
func clientOf(s bus.Subjects, subject, reply string) string {
	tokens := s.Split(subject) // rpc, the endpoint, and its tokens
	switch {
	case len(tokens) == 6: // rpc.call.<queue>.<tool>.<session>.<id>
		return tokens[4]
	case len(tokens) == 4 && tokens[1] != "call" && tokens[1] != "submit":
		return tokens[2]
	}
	inbox := strings.Split(reply, ".")
	if len(inbox) < 2 || inbox[0] == "_R_" {
		return strings.Join(tokens[:min(len(tokens), 3)], ".")
	}
	return strings.Join(inbox[:2], ".")
}
