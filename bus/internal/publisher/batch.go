package publisher

import (
	"errors"
	"maps"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

const (
	// maxBatch limits a batch. The server accepts 1,000 messages.
	maxBatch = 500
	// maxBatchedBody limits the bodies in a batch, because the server writes them twice.
	maxBatchedBody = 32 << 10
	// maxBatchBytes limits the sum of the bodies.
	maxBatchBytes = 4 << 20
)

// errBatchesDisabled is the error code of a stream that does not accept batches
// (JSAtomicPublishDisabledErr in errors.json of the server).
const errBatchesDisabled = 10174

// group has the publishes to one stream. The mutex of the publisher guards it.
type group struct {
	firstWins bool      // the stream keeps one message per subject
	disabled  bool      // the stream does not accept batches
	pending   []*outMsg // not sent
	rejected  []*outMsg // sent in a rejected batch; each is sent again without a batch
	singles   int       // sent without a batch, not acknowledged
	batches   int       // sent, not acknowledged: 0 or 1
}

// groups finds the group of a stream by its subjects.
type groups struct {
	prefix string
	byKind map[string]*group
}

func newGroups(prefix string, streams []jetstream.StreamConfig) groups {
	gs := groups{prefix + ".", map[string]*group{}}
	for _, s := range streams {
		g := &group{firstWins: s.DiscardNewPerSubject}
		for _, subject := range s.Subjects {
			gs.byKind[gs.kind(subject)] = g
		}
	}
	return gs
}

// kind is the first token after the prefix.
func (gs groups) kind(subject string) string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(subject, gs.prefix), ".")
	return kind
}

// add sends a queued message, or adds it to its group.
func (p *Publisher) add(m *outMsg) {
	if g := m.group; p.minBatch.Load() > 0 && g != nil {
		p.mu.Lock()
		waits := !g.disabled
		if waits {
			g.pending = append(g.pending, m)
		}
		p.mu.Unlock()
		if waits {
			return
		}
	}
	p.send(m)
}

// sendPending sends the messages of the groups that can be sent now.
func (p *Publisher) sendPending() {
	for _, g := range p.groups.byKind {
		for {
			members, commit := p.take(g)
			if commit != nil {
				p.sendBatch(commit)
				break
			}
			for _, m := range members {
				p.send(m)
			}
			if len(members) == 0 {
				break
			}
		}
	}
}

// take takes messages from a group that can be sent now. If they are a batch, commit
// waits for its acknowledgement. While a batch is on its way, the next one collects.
func (p *Publisher) take(g *group) (members []*outMsg, commit *outMsg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	minBatch := int(p.minBatch.Load())
	queue, limit := &g.pending, minBatch-g.singles
	switch {
	case len(g.rejected) > 0:
		queue, limit = &g.rejected, len(g.rejected)
	case g.batches > 0:
		return nil, nil
	case minBatch == 0: // another server than before
		limit = len(g.pending)
	case len(g.pending) >= minBatch:
		limit, commit = maxBatch, &outMsg{group: g, sent: true}
	}
	// If the first message wins, the server does not answer a batch with a subject twice.
	taken, size, rest := map[string]bool{}, 0, (*queue)[:0]
	for _, m := range *queue {
		switch {
		case p.waiting[m.number] != m: // nobody waits for it
		case len(members) >= limit, commit != nil && (g.firstWins && taken[m.Subject] || size+len(m.Data) > maxBatchBytes):
			rest = append(rest, m)
		default:
			size += len(m.Data)
			members, taken[m.Subject] = append(members, m), true
			if commit == nil {
				g.singles++
				m.sent = true
			}
		}
	}
	clear((*queue)[len(rest):])
	*queue = rest
	if commit == nil || len(members) == 0 {
		return members, nil
	}
	g.batches++
	commit.members = members
	p.register(commit)
	return members, commit
}

// sendBatch sends the members of commit as an atomic batch.
func (p *Publisher) sendBatch(commit *outMsg) {
	var err error
	for _, m := range commit.members {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.Subject == "" { // it was withdrawn just now
			err = errWithdrawn
		}
	}
	id := []string{nuid.Next()}
	for i, m := range commit.members {
		if err != nil {
			break
		}
		msg := nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: m.Data}
		maps.Copy(msg.Header, m.Header)
		msg.Header["Nats-Batch-Id"], msg.Header["Nats-Batch-Sequence"] = id, []string{strconv.Itoa(i + 1)}
		if i == len(commit.members)-1 {
			msg.Header["Nats-Batch-Commit"], msg.Reply = []string{"1"}, commit.Reply
		}
		err = p.nc.PublishMsg(&msg)
	}
	if err != nil {
		p.resolve(commit.number, pubAck{err: err})
	}
}

var errWithdrawn = errors.New("a publish of the batch was withdrawn")

// endBatch gives each member of a batch its acknowledgement. If the server rejected the
// batch, it stored none of them, and each is sent again.
func (p *Publisher) endBatch(commit *outMsg, a pubAck) {
	if a.err == nil {
		first := a.Sequence + 1 - uint64(len(commit.members))
		for i, m := range commit.members {
			p.resolve(m.number, pubAck{PubAck: jsapi.PubAck{Sequence: first + uint64(i)}})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.err != nil {
		api, ok := errors.AsType[*jetstream.APIError](a.err)
		commit.group.disabled = ok && api.ErrorCode == errBatchesDisabled
		commit.group.rejected = append(commit.group.rejected, commit.members...)
	}
	p.wake()
}
