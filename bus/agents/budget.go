package agents

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// Budget limits what agents may cost on one day (UTC), in the currency of the prices. The
// conversations have the cost of each turn, so all workers know the same sum, also after a
// restart; a conversation that was deleted does not count any more. It is safe for
// concurrent use.
type Budget struct {
	bus        *bus.Bus
	log        zerolog.Logger
	all        float64 // of all sessions; 0 means no limit
	perSession float64 // of a session with its sub-agents; 0 means no limit

	turn   chan struct{} // has a value while one caller reads; the fields below are its own
	day    time.Time
	next   uint64    // sequence of the first entry that is not counted
	since  time.Time // the begin of the day, or when the last entry that is counted was stored
	total  float64
	costs  map[string]float64 // by the token of the session, without sub-agents
	parent parents            // of the session of a sub-agent
	warned map[string]bool    // "" stands for all sessions
}

// NewBudget returns the budget of the agents of a bus: for all sessions, and for each.
func NewBudget(b *bus.Bus, all, perSession float64, log zerolog.Logger) *Budget {
	return &Budget{bus: b, log: log, all: all, perSession: perSession, turn: make(chan struct{}, 1)}
}

// warnAt is the part of a budget that the log warns at.
const warnAt = 0.8

// Check returns an error with the code agent.CodeCostBudget if the session, a token, has no
// budget left. Another error means that the conversations cannot be read.
func (u *Budget) Check(ctx context.Context, session string) error {
	select { // no mutex: it is held while the conversations are read, and ctx ends the wait for it
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return fmt.Errorf("read what the agents cost: %w", ctx.Err())
	}
	if err := u.count(ctx); err != nil {
		return fmt.Errorf("read what the agents cost: %w", err)
	}
	if err := u.check("", "of all sessions", u.total, u.all); err != nil || u.perSession <= 0 {
		return err
	}
	root, err := u.parent.rootOf(ctx, u.bus, session)
	spent := 0.0
	for s, cost := range u.costs {
		var of string
		if err == nil {
			of, err = u.parent.rootOf(ctx, u.bus, s)
		}
		if of == root {
			spent += cost
		}
	}
	if err != nil {
		return fmt.Errorf("read what the agents cost: %w", err)
	}
	return u.check(root, "of the session "+root, spent, u.perSession)
}

func (u *Budget) check(scope, whose string, spent, limit float64) error {
	switch {
	case limit <= 0 || spent < warnAt*limit:
		return nil
	case spent >= limit:
		return tools.Errorf(agent.CodeCostBudget, "the budget %s, %.2f a day, is spent: %.2f since 00:00 UTC. It begins anew at 00:00 "+
			"UTC, or when an operator raises it", whose, limit, spent)
	case !u.warned[scope]:
		u.warned[scope] = true
		u.log.Warn().Float64("spent", spent).Float64("budget", limit).Msg("80 % of today's budget " + whose + " is spent")
	}
	return nil
}

// count reads the entries of the day that are not counted yet.
func (u *Budget) count(ctx context.Context) error {
	today := time.Now().UTC().Truncate(24 * time.Hour)
	if !today.Equal(u.day) {
		u.day, u.since, u.next, u.total = today, today, 0, 0
		u.costs, u.parent, u.warned = map[string]float64{}, parents{}, map[string]bool{}
	}
	from := u.next
	q := bus.Query{Subject: u.bus.Session("*"), From: from}
	if from == 0 { // no entry of today was read yet; the stream may have those of 90 days
		q.Since = u.since
	}
	for m, err := range u.bus.Read(ctx, bus.Sessions, q) {
		if err != nil {
			return err
		}
		u.next, u.since = m.Sequence+1, m.At
		e, err := agent.DecodeEntry(m.Body)
		if err != nil || m.At.Before(today) {
			continue
		}
		token := u.bus.Split(m.Subject)[1]
		if e.Usage != nil {
			u.total += e.Usage.Cost
			u.costs[token] += e.Usage.Cost
		}
	}
	if from == 0 || u.next > from {
		return nil
	}
	stream, err := u.bus.UsedStream(ctx, bus.Sessions)
	if stream == nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.LastSeq+1 >= from {
		return err
	}
	u.next = 0 // the stream was lost, and the new one begins at 1 again; what was spent stays spent
	return u.count(ctx)
}

// parents are the sessions that started the sub-agents with a session, both as tokens; "" for that of a user.
type parents map[string]string

// rootOf returns the session that started a sub-agent, or the session itself. The entry that names it may
// be older than what the caller reads.
func (p parents) rootOf(ctx context.Context, b *bus.Bus, session string) (string, error) {
	for range maxNesting {
		if _, known := p[session]; !known && tools.IsHash(session) { // as the token of each sub-agent's session is
			first, err := firstMessage(ctx, b, session)
			if err != nil {
				return "", err
			}
			p[session] = ""
			if first.Call != nil && first.Call.SessionToken() == session {
				p[session], _ = agent.ParentSession(first.Call.Session)
			}
		}
		if p[session] == "" {
			break
		}
		session = p[session]
	}
	return session, nil
}

// maxNesting bounds the search for the session of a sub-agent: sessions may have been named
// to form a circle.
const maxNesting = 10
