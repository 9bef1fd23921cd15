package retention

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/tools"
)

// trimRound is how many records a round of trimResults reads at most.
const trimRound = 50_000

// trimResults removes the oldest results, completions and claims. A record stays if it is
// younger than the minimum age, or if its call is in progress. If there is space left, it
// also stays if another call of its session is in progress, or if the notifier has not
// read it.
func (k *Keeper) trimResults(ctx context.Context, f bus.Fill, l *lease) error {
	stream, err := k.bus.Stream(ctx, bus.Results)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	cutoff, end := info.TimeStamp.Add(-k.cfg.MinAge), info.State.LastSeq+1
	if f.Ratio() < bus.NearlyFull {
		if notified, ok, err := k.bus.ConsumerInfo(ctx, k.bus.NotifierConsumer()); err != nil {
			return err
		} else if ok {
			end = min(end, notified.AckFloor.Stream+1)
		}
	}
	first := info.State.FirstSeq
	if end <= first || !info.State.FirstTime.Before(cutoff) {
		return nil
	}
	work, err := k.workInProgress(ctx)
	if err != nil {
		return err
	}
	toFree := f.Bytes - int64(trimTo*float64(f.MaxBytes))
	before := f.Messages
	removals := []removal{k.removeIdle}
	if f.Ratio() >= bus.NearlyFull { // otherwise, a session that is never idle would stop all work
		removals = append(removals, k.removeBusy)
	}
	for _, remove := range removals {
		for from := first; from < end && toFree > 0; {
			r, err := k.readRound(ctx, f.Name, from, end, cutoff, toFree)
			if err != nil {
				return err
			}
			if len(r.records) == 0 {
				break
			}
			if err := k.addUnfinished(ctx, r, work); err != nil {
				return err
			}
			if err := l.removing(ctx, r.newest); err != nil {
				return err
			}
			freed, err := remove(ctx, stream, r, work, from == first)
			if err != nil {
				return fmt.Errorf("%w; this needs the permission to publish to %s", err, k.api.Subject("STREAM.PURGE."+f.Name))
			}
			if toFree -= freed; r.last {
				break
			}
			from = r.next
		}
	}
	if f, err := k.bus.Fill(ctx, bus.Results); err == nil && f.Messages < before {
		k.cfg.Log.Info().Str("stream", f.Name).Uint64("records", before-f.Messages).Int("percent", int(100*f.Ratio())).Msg("removed the oldest records, because the stream was filling up")
	}
	return nil
}

// work is what waits, runs, or is parked.
type work struct {
	sessions map[string]bool // tokens
	calls    map[string]bool // <session>.<call>
}

func (w *work) add(session, call string) {
	w.sessions[session], w.calls[session+"."+call] = true, true
}

// workInProgress returns the calls that wait or run, or that are parked.
func (k *Keeper) workInProgress(ctx context.Context) (*work, error) {
	busy := &work{map[string]bool{}, map[string]bool{}}
	stream, err := k.bus.Stream(ctx, bus.Calls)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, err
	}
	for subject := range info.State.Subjects {
		if tokens := k.bus.Split(subject); len(tokens) == 5 { // call.<queue>.<tool>.<session>.<call>
			busy.add(tokens[3], tokens[4])
		}
	}
	if err := k.addIntake(ctx, busy); err != nil {
		return nil, err
	}
	kv, err := k.bus.Bucket(ctx, bus.TasksBucket)
	if err != nil {
		return nil, err
	}
	keys, err := kv.ListKeysFiltered(ctx, "parked.*.*")
	if err != nil {
		return nil, err
	}
	for key := range keys.Keys() {
		if tokens := strings.Split(key, "."); len(tokens) == 3 {
			busy.add(tokens[1], tokens[2])
		}
	}
	return busy, ctx.Err()
}

// addIntake adds the sessions of the calls and raw results that wait in the intake stream.
// Only their bodies name the session.
func (k *Keeper) addIntake(ctx context.Context, busy *work) error {
	for m, err := range k.api.Messages(ctx, k.bus.StreamName(bus.Intake), jsapi.Get{NextBySubject: ">", MaxBytes: 4 << 20}) {
		if err != nil {
			return err
		}
		if call, err := tools.DecodeCall(m.Data); err == nil { // otherwise, it becomes a dead letter
			busy.add(call.SessionToken(), call.IDToken())
		}
	}
	return nil
}

// addUnfinished adds the async calls that have no completion yet.
func (k *Keeper) addUnfinished(ctx context.Context, r *round, busy *work) error {
	for call := range r.async {
		session, id, _ := strings.Cut(call, ".")
		if busy.calls[call] {
			continue
		}
		_, ended, err := k.bus.LastMessage(ctx, bus.Results, k.bus.Completion(session, id))
		if err != nil {
			return err
		}
		if !ended {
			busy.add(session, id)
		}
	}
	return nil
}

// readRound reads the next records that were stored before cutoff: at most trimRound, and
// only as many as free the given number of bytes.
func (k *Keeper) readRound(ctx context.Context, stream string, from, end uint64, cutoff time.Time, toFree int64) (*round, error) {
	r := &round{async: map[string]bool{}, next: end, last: true}
	for m, err := range k.api.Messages(ctx, stream, jsapi.Get{NextBySubject: ">", Sequence: from, MaxBytes: 4 << 20}) {
		switch {
		case err != nil:
			return nil, err
		case m.Sequence >= end || !m.Time.Before(cutoff):
			r.next = m.Sequence
			r.last = true
			return r, nil
		case len(r.records) == trimRound || toFree <= 0:
			r.next, r.last = m.Sequence, false
			return r, nil
		}
		tokens := k.bus.Split(m.Subject)
		record := record{sequence: m.Sequence, size: recordOverhead + int64(len(m.Subject)+len(m.Data))}
		for name, values := range m.Header {
			record.size += int64(len(name) + len(strings.Join(values, "")) + 4)
		}
		if len(tokens) == 3 { // result.<session>.<call>
			record.session, record.call = tokens[1], tokens[1]+"."+tokens[2]
			switch call := record.call; {
			case tokens[0] == "result" && bytes.Contains(m.Data, []byte(`"outcome":"async"`)):
				r.async[call] = true
			case tokens[0] == "completion":
				delete(r.async, call)
			}
		}
		r.records, r.newest = append(r.records, record), m.Time
		toFree -= record.size
	}
	return r, nil
}

// recordOverhead is what the server stores of a message beside its subject, header and
// body.
const recordOverhead = 30

// removal removes records of a round, and returns how many bytes this frees. oldest is set
// if the round begins with the oldest record of the stream.
type removal func(ctx context.Context, stream jetstream.Stream, r *round, busy *work, oldest bool) (freed int64, err error)

// removeIdle removes the records of sessions without work in progress. Those before the
// first one that stays go with one purge by sequence, if the round begins with the oldest
// record of the stream. The others need a purge for each session.
func (k *Keeper) removeIdle(ctx context.Context, stream jetstream.Stream, r *round, busy *work, oldest bool) (freed int64, err error) {
	rest := r.records
	if oldest {
		n := 0
		for n < len(rest) && !busy.sessions[rest[n].session] {
			freed += rest[n].size
			n++
		}
		until := r.next
		if n < len(rest) {
			until = rest[n].sequence
		}
		if n > 0 {
			if err := stream.Purge(ctx, jetstream.WithPurgeSequence(until)); err != nil {
				return 0, err
			}
		}
		rest = rest[n:]
	}
	sizes := map[string]int64{}
	for _, record := range rest {
		if record.session != "" && !busy.sessions[record.session] {
			sizes[record.session] += record.size
		}
	}
	for session, size := range sizes {
		if err := k.purge(ctx, stream, session, r.next); err != nil {
			return freed, err
		}
		freed += size
	}
	return freed, nil
}

// removeBusy removes the records of sessions with work in progress, up to the first record
// of a call that is in progress itself.
func (k *Keeper) removeBusy(ctx context.Context, stream jetstream.Stream, r *round, busy *work, _ bool) (freed int64, err error) {
	sizes, until := map[string]int64{}, map[string]uint64{}
	for _, record := range r.records {
		switch session := record.session; {
		case !busy.sessions[session] || until[session] > 0:
		case busy.calls[record.call]:
			until[session] = record.sequence
		default:
			sizes[session] += record.size
		}
	}
	for session, size := range sizes {
		if err := k.purge(ctx, stream, session, cmp.Or(until[session], r.next)); err != nil {
			return freed, err
		}
		freed += size
	}
	return freed, nil
}

// purge removes the records of a session before a sequence.
func (k *Keeper) purge(ctx context.Context, stream jetstream.Stream, session string, until uint64) error {
	subject := strings.Join([]string{k.bus.Prefix(), "*", session, "*"}, ".")
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(until)); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}
