package bus

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
	pullExpiry    = 10 * time.Second
	pullHeartbeat = 2 * time.Second
	// drainPatience bounds the wait for what is under way when a puller stops.
	drainPatience = time.Second
	// maxPull is the most that is asked for at once.
	maxPull = 1024
)

// errPullEnded: the server or the connection ended a request before its time.
// The consumer may be gone.
var errPullEnded = errors.New("pull ended early")

// puller asks a consumer for messages, one request at a time. It exists because
// the client's Fetch loses what arrives while its context ends: at each stop of
// a worker, those messages would wait for their lease to run out.
type puller struct {
	nc          *nats.Conn
	request     string // subject of the server's API
	info        string // the same, of what is left to pull
	reconnected chan nats.Status

	sub    *nats.Subscription // nil before the first request and after a loss
	inbox  string             // prefix of the requests' reply subjects
	serial int                // of the request
	msgs   chan *nats.Msg
}

func newPuller(nc *nats.Conn, api jsapi.API, stream, consumer string) *puller {
	return &puller{
		nc:          nc,
		request:     api.Subject("CONSUMER.MSG.NEXT." + stream + "." + consumer),
		info:        api.Subject("CONSUMER.INFO." + stream + "." + consumer),
		reconnected: nc.StatusChanged(nats.CONNECTED),
	}
}

// close releases the puller. It is called between requests, when nothing is
// under way.
func (p *puller) close() {
	p.nc.RemoveStatusListener(p.reconnected)
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails only with the connection
	}
}

// pull asks for n messages (maxPull at most) and passes them to take as they
// arrive. It returns when all came, when the server says that no more come for
// now, or when ctx ended; in each case after everything that the server sent was
// taken.
func (p *puller) pull(ctx context.Context, n int, take func(*nats.Msg)) (received int, err error) {
	n = min(n, maxPull)
	count := func(msg *nats.Msg) {
		received++
		take(msg)
	}
	if err := p.ask(n); err != nil {
		p.drain(count)
		return received, err
	}
	silence := time.NewTimer(2 * pullHeartbeat)
	defer silence.Stop()
	for received < n {
		select {
		case msg := <-p.msgs:
			silence.Reset(2 * pullHeartbeat)
			if !strings.HasPrefix(msg.Subject, p.inbox) {
				count(msg)
				continue
			}
			switch status := msg.Header.Get("Status"); {
			case msg.Subject != p.reply(), status == "100": // of an earlier request; a heartbeat
			case status == "404", status == "408":
				return received, nil // nothing more for now
			default:
				p.drain(count)
				return received, fmt.Errorf("%w: %s %s", errPullEnded, status, msg.Header.Get("Description"))
			}
		case <-p.reconnected: // the server forgot the request
			p.drain(count)
			return received, nil
		case <-silence.C:
			p.drain(count)
			return received, fmt.Errorf("%w: the server is silent", errPullEnded)
		case <-ctx.Done():
			p.finish(n-received, count)
			return received, nil
		}
	}
	return received, nil
}

// finish ends a request that wants so many more messages. What the server sends
// to an inbox that is just gone counts as delivered, and so as an attempt that
// nobody made. So while there is something to send, it is waited for.
func (p *puller) finish(left int, take func(*nats.Msg)) {
	for deadline := time.Now().Add(drainPatience); left > 0 && time.Now().Before(deadline) && p.pending(); {
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

// pending reports whether the consumer has messages that were not sent to
// anybody yet.
func (p *puller) pending() bool {
	reply, err := p.nc.Request(p.info, nil, drainPatience)
	if err != nil {
		return false
	}
	var info struct {
		Pending int `json:"num_pending"`
	}
	return json.Unmarshal(reply.Data, &info) == nil && info.Pending > 0
}

// ask sends the request. Its status comes to the inbox; messages come under
// their own subjects, so that nobody can fake a status.
func (p *puller) ask(n int) error {
	if p.sub == nil {
		p.inbox = p.nc.NewInbox()
		p.msgs = make(chan *nats.Msg, 2*maxPull)
		sub, err := p.nc.ChanSubscribe(p.inbox+".*", p.msgs)
		if err != nil {
			return err
		}
		p.sub = sub
	}
	p.serial++
	body := fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, n, pullExpiry.Nanoseconds(), pullHeartbeat.Nanoseconds())
	return p.nc.PublishRequest(p.request, p.reply(), body)
}

// reply is where the server tells about the current request.
func (p *puller) reply() string { return fmt.Sprintf("%s.%d", p.inbox, p.serial) }

// drain ends the subscription, and with it the request, and takes what the
// server sent until then. The next request has an inbox of its own, so that an
// old one cannot fill it.
func (p *puller) drain(take func(*nats.Msg)) {
	if p.sub == nil {
		return
	}
	// Draining keeps the subscription until the server has answered a ping; our
	// own ping comes later, so its answer is behind all messages. Without a
	// connection there is nothing to wait for.
	if p.sub.Drain() == nil && p.nc.IsConnected() {
		_ = p.nc.FlushTimeout(drainPatience)
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
