package retention

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/bus/task"
)

// trimRound is how many records a round of trimResults reads at most.
const trimRound = 50_000

// trimResults removes the oldest results, completions, claims and reports until there is space, in
// this order. The records of a call that is in progress always stay.
//
//  1. Those that are older than the minimum age, that the notifier has read, and whose
//     session has no call in progress.
//  2. If the stream will be full before the next check: all that are older than the
//     minimum age.
//  3. If that is not enough: those that are older than a lease and that the notifier has
//     read, first of sessions without a call in progress. Finished work must not stop new
//     work. In that time, a client that got no answer repeats its publish, and the worker
//     finds the result.
func (k *Keeper) trimResults(ctx context.Context, f bus.Fill, l *lease, toFree int64, urgent bool) error {
	stream, err := k.bus.Stream(ctx, bus.Results)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	end := info.State.LastSeq + 1
	notified, ok, err := k.bus.ConsumerInfo(ctx, k.bus.NotifierConsumer())
	if err != nil {
		return err
	}
	read := end // the floor is the last report or completion, not the last record
	if ok && notified.NumPending+uint64(notified.NumAckPending) > 0 {
		read = min(read, notified.AckFloor.Stream+1)
	}
	now := info.TimeStamp
	t := &trimming{k: k, stream: stream, lease: l, first: info.State.FirstSeq, toFree: toFree}
	if t.work, err = k.workInProgress(ctx); err != nil {
		return err
	}
	old, young := now.Add(-k.cfg.MinAge), now.Add(-k.youngest())
	passes := []pass{{cutoff: old, end: read}}
	if urgent {
		passes = append(passes, pass{cutoff: old, end: end}, pass{cutoff: old, end: end, busy: true},
			pass{cutoff: young, end: read, young: true}, pass{cutoff: young, end: read, busy: true, young: true})
	}
	before, removedYoung := t.toFree, false
	for _, p := range passes {
		left := t.toFree
		if err := t.run(ctx, p); err != nil {
			return err
		}
		removedYoung = removedYoung || p.young && t.toFree < left
	}
	after, err := bus.ReadFill(ctx, k.bus, bus.Results)
	if err != nil || t.toFree == before {
		return err
	}
	k.bus.Space().Free(bus.Results)
	if f.Messages > after.Messages { // otherwise, others were stored meanwhile
		k.removed += f.Messages - after.Messages
	}
	if now := time.Now(); now.Sub(k.logged) >= warnInterval {
		k.cfg.Log.Info().Str("stream", f.Name).Uint64("records", k.removed).Int("percent", int(100*after.Ratio())).
			Msg("removed the oldest records, because the stream was filling up")
		k.logged, k.removed = now, 0
	}
	if removedYoung {
		k.warnYoung.Warn().Str("stream", f.Name).Int("percent", int(100*f.Ratio())).Stringer("min_age", k.cfg.MinAge).Str("reason", f.Full().Error()).
			Msg("removed records that are younger than the minimum age, because the stream does not hold all of that time")
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

// workInProgress returns the calls that wait or run, or that are parked. A call that moved
// from the calls stream to its record while this reads is found there; the record of one
// that moved back has changed since.
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
	moving, err := task.ListMoving(ctx, k.bus, "*", info.TimeStamp)
	for _, r := range moving {
		busy.add(r.Key().Session, r.Key().ID)
	}
	return busy, err
}

// addUnfinished adds the async calls that have no completion yet.
func (k *Keeper) addUnfinished(ctx context.Context, r *round, busy *work) error {
	for call := range r.async {
		session, id, _ := strings.Cut(call, ".")
		if busy.calls[call] {
			continue
		}
		stored, err := task.ReadResults(ctx, k.bus, session, id)
		if err != nil {
			return err
		}
		if !task.Ended(stored) {
			busy.add(session, id)
		}
	}
	return nil
}

// round is a part of the results stream.
type round struct {
	records []record
	async   map[string]bool // <session>.<call> of async results without a completion in this part
	newest  time.Time       // when the last record was stored
	next    uint64          // the sequence after the part
	last    bool            // no part follows
}

type record struct {
	sequence uint64
	session  string // token; empty if no worker stored the record
	call     string // <session>.<call>
	size     int64  // in bytes, approximately
}

// readRound reads the next records that were stored before cutoff: at most trimRound, and
// only as many as free the given number of bytes.
func (k *Keeper) readRound(ctx context.Context, stream string, from, end uint64, cutoff time.Time, toFree int64) (*round, error) {
	r := &round{async: map[string]bool{}, next: end, last: true}
	for m, err := range k.bus.API().AllMessages(ctx, stream, jsapi.Get{NextBySubject: ">", Sequence: from, MaxBytes: 4 << 20}) {
		switch {
		case err != nil:
			return nil, err
		case m.Sequence >= end || !m.Time.Before(cutoff):
			r.next = m.Sequence
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
		if len(tokens) == 3 && bus.CheckSubject(m.Subject) == nil { // result.<session>.<call>; a client can store one with a wildcard
			record.session, record.call = tokens[1], tokens[1]+"."+tokens[2]
			switch call := record.call; {
			case tokens[0] == task.ResultKind && bytes.Contains(m.Data, []byte(`"outcome":"async"`)):
				r.async[call] = true
			case tokens[0] == task.CompletionKind:
				if _, err := task.DecodeResult(k.bus, m.Subject, m.Data); err == nil {
					delete(r.async, call)
				}
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
