package bus

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// What was queued before stop is sent, although nobody waits for it.
func TestStopSendsWhatIsQueued(t *testing.T) {
	const n = 500
	listener := connectPlain(t)
	heard, err := listener.SubscribeSync("ack")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(listener.ConnectedUrl())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for round := range 20 {
		o, err := newPublisher(nc, time.Second, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := o.put("ack", []byte(ackDone)); err != nil {
				t.Fatal(err)
			}
		}
		o.stop()
		if err := o.put("ack", nil); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("put after stop: %v", err)
		}
		for i := range n {
			if _, err := heard.NextMsg(20 * time.Second); err != nil {
				t.Fatalf("round %d: message %d: %v", round, i, err)
			}
		}
	}
}

// A publish that nobody waits for any more is not sent later, when its body may be
// another one, and its end does not wait for room in the queue.
func TestWithdrawnPublishIsNotSent(t *testing.T) {
	listener := connectPlain(t)
	heard, err := listener.SubscribeSync("test.*")
	if err != nil {
		t.Fatal(err)
	}
	d := &stallingDialer{blocked: make(chan struct{}, 1)}
	nc, err := nats.Connect(listener.ConnectedUrl(), nats.SetCustomDialer(d))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	o, err := newPublisher(nc, time.Minute, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer o.stop()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.stalled.Store(true)
	unstall := sync.OnceFunc(d.mu.Unlock)
	defer unstall()
	if err := o.put("test.first", make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	<-d.blocked

	ended, answered := make(chan struct{}), make(chan bool)
	publish := func(subject string, body []byte) {
		_, ok := o.publish(subject, nil, body, ended)
		answered <- ok
	}
	body := []byte("withdrawn")
	go publish("test.second", body)
	for len(o.queue) == 0 {
		runtime.Gosched()
	}
	close(ended)
	if <-answered {
		t.Error("the publish that ended got an answer")
	}
	copy(body, "scribbled")
	for len(o.queue) < cap(o.queue) {
		if err := o.put("rest", nil); err != nil {
			t.Fatal(err)
		}
	}
	go publish("test.third", nil)
	select {
	case ok := <-answered:
		if ok {
			t.Error("the publish into a full queue got an answer")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a publish that ended waits for room")
	}
	unstall()
	if err := o.put("test.last", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"test.first", "test.last"} {
		msg, err := heard.NextMsg(20 * time.Second)
		if err != nil || msg.Subject != want {
			t.Fatalf("heard %+v, %v; want %s", msg, err, want)
		}
	}
}

// stallingDialer makes a connection that takes nothing while mu is held.
type stallingDialer struct {
	stalled atomic.Bool
	blocked chan struct{}
	mu      sync.Mutex
}

func (d *stallingDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &stallingConn{Conn: c, dialer: d}, err
}

type stallingConn struct {
	net.Conn
	dialer *stallingDialer
}

func (c *stallingConn) Write(p []byte) (int, error) {
	if c.dialer.stalled.Load() {
		select {
		case c.dialer.blocked <- struct{}{}:
		default:
		}
	}
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	return c.Conn.Write(p)
}

// Beside goroutines that compute, each of which takes its time slice, a publish
// does not wait for all of them again and again.
func TestCoalesceBesideComputation(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	o := &publisher{queue: make(chan *outMsg, 1)}
	go func() {
		for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
		}
	}()
	o.coalesce() // waits for it
	waited := 0
	const n = 5 // any of them may be interrupted
	for range n {
		var ran atomic.Bool
		go ran.Store(true)
		o.coalesce()
		if ran.Load() {
			waited++
		}
	}
	if waited == n {
		t.Error("each of them waits for the others")
	}
}
