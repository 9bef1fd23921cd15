// Package pull pulls messages of a consumer.
package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

const (
	defaultExpiry    = 10 * time.Second
	defaultHeartbeat = 2 * time.Second
	// drainTimeout limits the wait for messages on their way when a puller stops.
	drainTimeout = time.Second
	// Max limits the messages of one request.
	Max = 1024
)

// errEnded means that the server or the connection ended a request early. The
// consumer may not exist any more.
var errEnded = errors.New("pull ended early")

// Puller pulls messages of a consumer, with one request at a time. Fetch of nats.go
// loses the messages that arrive while its context ends: after each stop of a worker,
// they would wait until their lease ends.
type Puller struct {
	nc          *nats.Conn
	most        int    // of one request
	request     string // subject of the server's API
	info        string // subject for the number of pending messages
	reconnected chan nats.Status
	// Expiry is how long a request waits for messages, and Heartbeat how often the server says that
	// it still does. Default 10 s and 2 s.
	Expiry, Heartbeat time.Duration
	// Works, if not nil, is called when the server says that it waits for messages.
	Works func()

	group string // of the consumer, or empty
	spare bool

	sub    *nats.Subscription // nil before the first request and after a loss
	inbox  string             // prefix of the requests' reply subjects
	serial int                // of the request
	msgs   chan *nats.Msg
}

// New returns a puller that has not asked yet, and requests so many messages at most (Max is the
// limit).
func New(nc *nats.Conn, api jsapi.API, stream, consumer string, most int) *Puller {
	return &Puller{
		most:        min(most, Max),
		nc:          nc,
		request:     api.Subject("CONSUMER.MSG.NEXT." + stream + "." + consumer),
		info:        api.Subject("CONSUMER.INFO." + stream + "." + consumer),
		reconnected: nc.StatusChanged(nats.CONNECTED),
		Expiry:      defaultExpiry, Heartbeat: defaultHeartbeat,
	}
}

// Join makes the requests name a priority group. A spare puller gets messages only while no
// other one asks.
func (p *Puller) Join(group string, spare bool) { p.group, p.spare = group, spare }

// Close releases the puller. Call it between requests.
func (p *Puller) Close() {
	p.nc.RemoveStatusListener(p.reconnected)
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails only with the connection
	}
}

// Pull requests n messages and passes them to take. It returns when
// all have arrived, when the server ends the request after Expiry, or when ctx ends; in
// each case after all messages that the server sent were taken.
func (p *Puller) Pull(ctx context.Context, n int, take func(*nats.Msg)) (received int, err error) {
	n = min(n, p.most)
	count := func(msg *nats.Msg) {
		received++
		take(msg)
	}
	if err := p.ask(n); err != nil {
		p.drain(count)
		return received, err
	}
	heartbeat := time.NewTimer(2 * p.Heartbeat)
	defer heartbeat.Stop()
	for received < n {
		select {
		case msg := <-p.msgs:
			heartbeat.Reset(2 * p.Heartbeat)
			if !strings.HasPrefix(msg.Subject, p.inbox) {
				count(msg)
				continue
			}
			switch status := msg.Header.Get("Status"); {
			case msg.Subject != p.reply(): // an earlier request
			case status == "100": // a heartbeat
				if p.Works != nil {
					p.Works()
				}
			case status == "404", status == "408":
				return received, nil // no more messages for now
			case status == "503":
				p.drain(count)
				return received, fmt.Errorf("%w: the consumer does not exist, or has no leader", errEnded)
			default:
				p.drain(count)
				return received, fmt.Errorf("%w: %s %s", errEnded, status, msg.Header.Get("Description"))
			}
		case <-p.reconnected: // the server forgot the request
			p.drain(count)
			return received, nil
		case <-heartbeat.C:
			p.drain(count)
			return received, fmt.Errorf("%w: the server sent no heartbeat", errEnded)
		case <-ctx.Done():
			p.finish(n-received, count)
			return received, nil
		}
	}
	return received, nil
}

// finish ends a request for left more messages. A message that the server sends to a
// closed inbox counts as an attempt, so finish waits while messages are pending.
func (p *Puller) finish(left int, take func(*nats.Msg)) {
	for deadline := time.Now().Add(drainTimeout); left > 0 && time.Now().Before(deadline) && p.pending(); {
		for wait := time.After(10 * time.Millisecond); wait != nil; {
			select {
			case msg := <-p.msgs:
				if !strings.HasPrefix(msg.Subject, p.inbox) {
					left--
					take(msg)
				}
			case <-wait:
				wait = nil
			}
		}
	}
	p.drain(take)
}

// pending reports whether the consumer has messages that were not delivered yet.
func (p *Puller) pending() bool {
	reply, err := p.nc.Request(p.info, nil, drainTimeout)
	if err != nil {
		return false
	}
	var info struct {
		Pending int `json:"num_pending"`
	}
	return json.Unmarshal(reply.Data, &info) == nil && info.Pending > 0
}

// ask sends the request. Its status arrives on the inbox. Messages arrive under their
// own subjects, so a client cannot forge a status.
func (p *Puller) ask(n int) error {
	if p.sub == nil {
		p.inbox = p.nc.NewInbox()
		p.msgs = make(chan *nats.Msg, 2*p.most)
		sub, err := p.nc.ChanSubscribe(p.inbox+".*", p.msgs)
		if err != nil {
			return err
		}
		p.sub = sub
	}
	p.serial++
	body := fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d`, n, p.Expiry.Nanoseconds(), p.Heartbeat.Nanoseconds())
	if p.group != "" {
		priority := 0
		if p.spare {
			priority = 1
		}
		body = fmt.Appendf(body, `,"group":%q,"priority":%d`, p.group, priority)
	}
	body = append(body, '}')
	return p.nc.PublishRequest(p.request, p.reply(), body)
}

// reply is the subject for the status of the current request.
func (p *Puller) reply() string { return fmt.Sprintf("%s.%d", p.inbox, p.serial) }

// drain ends the subscription, and so the request, and takes all messages that the
// server sent until then. The next request has another inbox, which messages for the
// old one do not reach.
func (p *Puller) drain(take func(*nats.Msg)) {
	if p.sub == nil {
		return
	}
	// Drain keeps the subscription until the server has answered a ping. The ping of
	// Flush follows, so its reply arrives after all messages.
	if p.sub.Drain() == nil && p.nc.IsConnected() {
		_ = p.nc.FlushTimeout(drainTimeout)
	}
	p.sub = nil
	for {
		select {
		case msg := <-p.msgs:
			if !strings.HasPrefix(msg.Subject, p.inbox) {
				take(msg)
			}
		default:
			return
		}
	}
}
