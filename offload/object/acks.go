package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// defaultAckTimeout is how long the server may take to store one message.
	defaultAckTimeout = 10 * time.Second
	// lookInterval is how often who waits looks whether the connection holds.
	lookInterval = 100 * time.Millisecond
	// idleAcks is how many are kept for uploads to come.
	idleAcks = 16
)

// acks publishes messages to a stream and takes what the server says of them.
// It is for one goroutine. The futures of the client library, with a timer, two
// channels and a turn of another goroutine for each message, would cost a Put a
// twentieth of its time.
type acks struct {
	nc         *nats.Conn
	sub        *nats.Subscription
	inbox      string // of the answers, up to their number
	answers    chan *nats.Msg
	timeout    time.Duration
	taken      map[int]*nats.Msg // answers by their number
	last       int               // number of the last message; the first is 1
	open       int               // messages whose answer nobody had yet
	reconnects uint64            // of the connection, at the beginning
	lost       error             // why no answer is waited for any more
}

// takeAcks returns idle acks, or new ones.
func (s *Store) takeAcks() (*acks, error) {
	select {
	case a := <-s.idle:
		a.reconnects = a.nc.Stats().Reconnects
		return a, nil
	default:
	}
	nc := s.api.nc
	a := &acks{
		nc: nc, inbox: nc.NewInbox() + ".", reconnects: nc.Stats().Reconnects,
		answers: make(chan *nats.Msg, maxInFlight+1), timeout: s.ackTimeout, taken: map[int]*nats.Msg{},
	}
	var err error
	a.sub, err = nc.ChanSubscribe(a.inbox+"*", a.answers)
	return a, err
}

// leaveAcks keeps acks for an upload to come, unless answers may still come.
func (s *Store) leaveAcks(a *acks) error {
	if a.open == 0 && a.lost == nil {
		select {
		case s.idle <- a:
			return nil
		default:
		}
	}
	return a.sub.Unsubscribe()
}

// endAcks is for idle acks that nobody takes any more.
func endAcks(idle chan *acks) {
	for {
		select {
		case a := <-idle:
			a.sub.Unsubscribe()
		default:
			return
		}
	}
}

// publish returns the number of the message, whose data may be reused then. At
// most maxInFlight chunks and a name may be open.
func (a *acks) publish(m *nats.Msg) (number int, err error) {
	m.Reply = a.inbox + strconv.Itoa(a.last+1)
	if err := a.nc.PublishMsg(m); err != nil {
		return 0, err
	}
	a.last++
	a.open++
	return a.last, nil
}

// await returns the sequence of a message in its stream, once. An error that is
// not the server's leaves open whether it is stored.
func (a *acks) await(ctx context.Context, number int) (seq uint64, err error) {
	for a.taken[number] == nil {
		select {
		case m := <-a.answers:
			a.take(m)
		default:
			if err := a.wait(ctx); err != nil {
				return 0, err
			}
		}
	}
	m := a.taken[number]
	delete(a.taken, number)
	a.open--
	return readAck(m)
}

// drain waits for all answers that nobody had yet, or an error like await's.
func (a *acks) drain(ctx context.Context) error {
	for len(a.taken) < a.open {
		if err := a.wait(ctx); err != nil {
			return err
		}
	}
	clear(a.taken)
	a.open = 0
	return nil
}

// wait takes one answer.
func (a *acks) wait(ctx context.Context) error {
	if a.lost != nil {
		return a.lost
	}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for start := time.Now(); ; {
		select {
		case m := <-a.answers:
			a.take(m)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		switch {
		case !a.nc.IsConnected(), a.nc.Stats().Reconnects != a.reconnects:
			a.lost = nats.ErrDisconnected
			return a.lost
		case time.Since(start) > a.timeout:
			a.lost = fmt.Errorf("no answer from the server for %v: %w", a.timeout, nats.ErrTimeout)
			return a.lost
		}
	}
}

func (a *acks) take(m *nats.Msg) {
	if number, err := strconv.Atoi(m.Subject[len(a.inbox):]); err == nil {
		a.taken[number] = m
	}
}

func readAck(m *nats.Msg) (seq uint64, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return 0, jetstream.ErrNoStreamResponse
	}
	var reply struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &reply); {
	case err != nil:
		return 0, fmt.Errorf("read the server's answer: %w", err)
	case reply.Error != nil:
		return 0, full(reply.Error)
	case reply.Seq == 0:
		return 0, errors.New("read the server's answer: it has no sequence")
	}
	return reply.Seq, nil
}
