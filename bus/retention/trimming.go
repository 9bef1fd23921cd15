package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// trimming is one run of trimResults.
type trimming struct {
	k      *Keeper
	stream jetstream.Stream
	lease  *lease
	work   *work
	first  uint64 // the sequence of the oldest record
	toFree int64  // in bytes; at most 0 if there is space
	// held are the sessions of which a record stays in this pass. No purge removes later
	// records of them, because it would remove that one too.
	held map[string]bool
}

// pass removes records that were stored before cutoff and have a sequence below end.
type pass struct {
	cutoff time.Time
	end    uint64
	busy   bool // of sessions with work in progress too, but not of the calls in progress
	young  bool // it removes records that are younger than the minimum age
}

func (t *trimming) run(ctx context.Context, p pass) error {
	t.held = map[string]bool{}
	name := t.k.bus.StreamName(bus.Results)
	stays := func(r record) bool { return t.work.calls[r.call] || !p.busy && t.work.sessions[r.session] }
	for from := t.first; from < p.end && t.toFree > 0; {
		r, err := t.k.readRound(ctx, name, from, p.end, p.cutoff, t.toFree)
		if err != nil {
			return err
		}
		if len(r.records) == 0 {
			return nil
		}
		if err := t.k.addUnfinished(ctx, r, t.work); err != nil {
			return err
		}
		if err := t.lease.removing(ctx, r.newest); err != nil {
			return err
		}
		freed, err := t.remove(ctx, r, from == t.first, stays)
		if err != nil {
			return fmt.Errorf("%w; this needs the permission to publish to %s and %s", err,
				t.k.bus.API().Subject("STREAM.PURGE."+name), t.k.bus.API().Subject("STREAM.MSG.DELETE."+name))
		}
		if t.toFree -= freed; r.last {
			return nil
		}
		from = r.next
	}
	return nil
}

// remove removes records of a round, and returns how many bytes this frees. Those before the
// first one that stays go with one purge by sequence, if the round begins with the oldest
// record of the stream. Of the others, one purge for each session removes those before the
// first record of it that stays, and later ones are deleted one by one.
func (t *trimming) remove(ctx context.Context, r *round, oldest bool, stays func(record) bool) (freed int64, err error) {
	rest := r.records
	if oldest {
		n := 0
		for n < len(rest) && !stays(rest[n]) {
			freed += rest[n].size
			n++
		}
		until := r.next
		if n < len(rest) {
			until = rest[n].sequence
		}
		if n > 0 {
			if err := t.stream.Purge(ctx, jetstream.WithPurgeSequence(until)); err != nil {
				return 0, err
			}
		}
		rest = rest[n:]
	}
	until := map[string]uint64{} // the sequence before which the records of a session go
	var single []uint64
	for _, record := range rest {
		switch session := record.session; {
		case session != "" && stays(record):
			if until[session] == r.next {
				until[session] = record.sequence
			}
			t.held[session] = true
		case session == "", t.held[session]:
			freed, single = freed+record.size, append(single, record.sequence)
		default:
			freed, until[session] = freed+record.size, r.next
		}
	}
	for session, before := range until {
		if err := t.k.bus.Purge(ctx, bus.Results, t.k.bus.ResultsOf(session), before); err != nil {
			return 0, err
		}
	}
	return freed, t.k.bus.DeleteAll(ctx, bus.Results, single)
}
