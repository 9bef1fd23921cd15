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
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// stop sends the queued messages, although no caller waits for them.
func TestStopSendsQueuedMessages(t *testing.T) {
	const n = 500
	listener := connectPlain(t)
	received, err := listener.SubscribeSync("ack")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(listener.ConnectedUrl())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for round := range 20 {
		o, err := newPublisher(nc, time.Second, zerolog.Nop(), groups{})
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
			if _, err := received.NextMsg(time.Minute); err != nil {
				t.Fatalf("round %d: message %d: %v", round, i, err)
			}
		}
	}
}

// A withdrawn publish is not sent later, when the caller may have changed its body.
// withdraw does not wait for a full queue.
func TestWithdrawnPublishIsNotSent(t *testing.T) {
	listener := connectPlain(t)
	received, err := listener.SubscribeSync("test.*")
	if err != nil {
		t.Fatal(err)
	}
	d := &stallingDialer{blocked: make(chan struct{}, 1)}
	nc, err := nats.Connect(listener.ConnectedUrl(), nats.SetCustomDialer(d))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	o, err := newPublisher(nc, time.Minute, zerolog.Nop(), groups{})
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
		t.Error("the publish that ended got a result")
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
			t.Error("the publish into a full queue got a result")
		}
	case <-time.After(time.Minute):
		t.Fatal("a publish that ended waits for the queue")
	}
	unstall()
	if err := o.put("test.last", nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"test.first", "test.last"} {
		msg, err := received.NextMsg(time.Minute)
		if err != nil || msg.Subject != want {
			t.Fatalf("received %+v, %v; want %s", msg, err, want)
		}
	}
}

// stallingDialer makes a connection whose writes block while mu is held.
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

// On a busy CPU, coalesce does not wait repeatedly for goroutines that use their whole
// time slices.
func TestCoalesceOnABusyCPU(t *testing.T) {
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
		t.Error("each publish waits for all goroutines")
	}
}

// Publishes are sent immediately while few are in flight. The next ones wait for an
// acknowledgement, or until they are enough for a batch. The test is the stream.
func TestPublishesWaitForAcknowledgements(t *testing.T) {
	nc := connectPlain(t)
	stream, err := nc.SubscribeSync("test.result.*")
	if err != nil {
		t.Fatal(err)
	}
	o, err := newPublisher(nc, time.Hour, zerolog.Nop(), newGroups("test", []jetstream.StreamConfig{{Subjects: []string{"test.result.*"}}}))
	if err != nil {
		t.Fatal(err)
	}
	var publishers sync.WaitGroup
	defer publishers.Wait()
	defer o.stop()
	publish := func(count int) {
		for range count {
			publishers.Go(func() { o.publish("test.result.x", nil, nil, nil) })
		}
	}
	receive := func(batch bool) *nats.Msg {
		t.Helper()
		msg, err := stream.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if in := msg.Header.Get("Nats-Batch-Id") != ""; in != batch {
			t.Fatalf("message %v, want one in a batch: %t", msg.Header, batch)
		}
		return msg
	}
	pending := func(want int) {
		t.Helper()
		for {
			o.mu.Lock()
			n := len(o.groups.byKind["result"].pending)
			o.mu.Unlock()
			if n == want {
				return
			}
			runtime.Gosched()
		}
	}
	acknowledge := func(msg *nats.Msg) {
		t.Helper()
		if err := msg.Respond([]byte(`{"stream":"S","seq":1000}`)); err != nil {
			t.Fatal(err)
		}
	}
	var singles []*nats.Msg
	for range minBatch {
		publish(1)
		singles = append(singles, receive(false))
	}
	publish(10)
	pending(10)
	for _, msg := range singles[:10] {
		acknowledge(msg)
		receive(false)
	}
	publish(minBatch)
	var commit *nats.Msg
	for range minBatch {
		commit = receive(true)
	}
	// These wait for the batch, and three do not wait until it ends.
	ended, withdrawn := make(chan struct{}), make(chan struct{})
	for range 3 {
		go func() {
			o.publish("test.result.x", nil, nil, ended)
			withdrawn <- struct{}{}
		}()
	}
	pending(3)
	publish(1)
	pending(4)
	close(ended)
	for range 3 {
		<-withdrawn
	}
	acknowledge(singles[10])
	acknowledge(commit)
	receive(false)
}
