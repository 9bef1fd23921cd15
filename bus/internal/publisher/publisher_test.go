package publisher

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// connectPlain starts a server without JetStream and connects to it.
func connectPlain(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func noBatches() int { return 0 }

const minBatch = 24

// stop sends the queued messages, although no caller waits for them.
func TestStopSendsQueuedMessages(t *testing.T) {
	const n = 500
	listener := connectPlain(t)
	received, err := listener.SubscribeSync("ack")
	if err == nil {
		err = listener.Flush() // the server knows the subscription
	}
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(listener.ConnectedUrl())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for round := range 20 {
		o, err := New(nc, time.Second, zerolog.Nop(), "", nil, noBatches)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := o.Put("ack", []byte("+ACK")); err != nil {
				t.Fatal(err)
			}
		}
		o.Stop()
		if err := o.Put("ack", nil); !errors.Is(err, nats.ErrConnectionClosed) {
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
	if err == nil {
		err = listener.Flush() // the server knows the subscription
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &stallingDialer{blocked: make(chan struct{}, 1)}
	nc, err := nats.Connect(listener.ConnectedUrl(), nats.SetCustomDialer(d))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	o, err := New(nc, time.Minute, zerolog.Nop(), "", nil, noBatches)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Stop()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.stalled.Store(true)
	unstall := sync.OnceFunc(d.mu.Unlock)
	defer unstall()
	if err := o.Put("test.first", make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	<-d.blocked

	ended, answered := make(chan struct{}), make(chan bool)
	publish := func(subject string, body []byte) {
		_, ok, _ := o.Publish(subject, nil, body, ended)
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
		if err := o.Put("rest", nil); err != nil {
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
	if err := o.Put("test.last", nil); err != nil {
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
	o := &Publisher{queue: make(chan *outMsg, 1)}
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
	o, err := New(nc, time.Hour, zerolog.Nop(), "test", []jetstream.StreamConfig{{Subjects: []string{"test.result.*"}}}, func() int { return minBatch })
	if err != nil {
		t.Fatal(err)
	}
	var publishers sync.WaitGroup
	defer publishers.Wait()
	defer o.Stop()
	for o.minBatch.Load() == 0 {
		runtime.Gosched()
	}
	publish := func(count int) {
		for range count {
			publishers.Go(func() { o.Publish("test.result.x", nil, nil, nil) })
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
			o.Publish("test.result.x", nil, nil, ended)
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
