package consume

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/nats-io/nats-server/v2/server"
)

// A lease that is removed after the snapshot is not extended: the extension would cancel
// the delay of the nak that was sent in between.
func TestLeaseIsNotExtendedAfterRemove(t *testing.T) {
	nc := connectPlain(t)
	received, err := nc.SubscribeSync("ack.>")
	if err != nil {
		t.Fatal(err)
	}
	l := newLeases(nc, time.Hour)
	held, givenUp := &nats.Msg{Reply: "ack.held"}, &nats.Msg{Reply: "ack.given-up"}
	l.add(held)
	l.add(givenUp)
	seen := l.snapshot()
	l.remove(givenUp)
	for _, msg := range seen {
		l.extend(msg)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	msg, err := received.NextMsg(time.Minute)
	if n, _, _ := received.Pending(); err != nil || msg.Subject != "ack.held" || n != 0 {
		t.Errorf("received %v and %d more, %v; want the extension of the held lease", msg, n, err)
	}
}

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
