package cron

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// read returns the entry of a schedule without its last run; ok is false if there is none. That of
// a single time has ended when the server has published its tick, which the stream keeps for a while.
func (js *Jobs) read(ctx context.Context, kind, name string) (e Entry, ok bool, err error) {
	msg, err := js.bus.Last(ctx, bus.Ticks, js.bus.Schedule(kind, name))
	if err != nil {
		return Entry{}, false, err
	}
	tick, err := js.bus.Last(ctx, bus.Ticks, js.bus.Tick(kind, name))
	if err != nil {
		return Entry{}, false, err
	}
	due, next := tickTimes(tick.Header.Get)
	switch {
	case msg.Sequence > 0:
		e = decodeEntry(kind, name, msg)
		e.tick = tick
		if e.Disabled {
			break
		}
		if e.Next = e.next(e.from, time.Now()); next.After(time.Now()) && tick.Sequence > e.revision {
			e.Next = next
		}
	case !due.IsZero() && next.IsZero():
		e = Entry{Job: Job{At: due}, ChangedAt: tick.At.UTC(), Ended: true}
		e.foreign = e.decode(kind, name, tick.Body) != nil
	default:
		return Entry{}, false, nil
	}
	return e, true, nil
}

// all lists the schedules of a kind, or of all kinds if it is empty, after a position
// ("<kind>.<name>"), by which they are sorted, with those that have ended if ended is set. If wanted is not nil, only the
// schedules that it selects are read.
func (js *Jobs) all(ctx context.Context, kind, position string, ended bool, wanted func(kind, name string) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		filter := kind
		if kind == "" {
			filter = "*"
		}
		stream, err := js.bus.UsedStream(ctx, bus.Ticks)
		if stream == nil && err == nil {
			return
		}
		subjects := []string{js.bus.Schedule(filter, "*")}
		if ended {
			subjects = append(subjects, js.bus.Tick(filter, "*"))
		}
		positions := map[string][]string{} // tokens of the subjects
		for _, filter := range subjects {
			var info *jetstream.StreamInfo
			if err == nil {
				info, err = stream.Info(ctx, jetstream.WithSubjectFilter(filter))
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for subject := range info.State.Subjects {
				if tokens := js.bus.Split(subject); len(tokens) == 3 && bus.CheckSubject(subject) == nil { // written by this package
					positions[tokens[1]+"."+tokens[2]] = tokens
				}
			}
		}
		for _, at := range slices.Sorted(maps.Keys(positions)) {
			kind, name := positions[at][1], positions[at][2]
			if at <= position || wanted != nil && !wanted(kind, name) {
				continue
			}
			e, ok, err := js.read(ctx, kind, name)
			if err == nil && (!ok || e.Ended && !ended) {
				continue // deleted in the meantime
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// write stores the message of a schedule if its revision is the given one (0: it does not exist).
// Otherwise it fails with bus.ErrConflict.
func (js *Jobs) write(ctx context.Context, m bus.Message, revision uint64) error {
	err := js.publishAt(ctx, m, revision)
	if errors.Is(err, bus.ErrConflict) { // perhaps this write, whose acknowledgement was lost
		have, readErr := js.bus.Last(ctx, bus.Ticks, m.Subject)
		if readErr == nil && have.Sequence > revision && same(have.Header, have.Body, m) {
			return nil
		}
	}
	return err
}

func (js *Jobs) publishAt(ctx context.Context, m bus.Message, revision uint64) error {
	maps.Copy(m.Header, bus.ExpectRevision(revision))
	_, err := js.bus.Publish(ctx, m)
	return err
}

// remove removes a schedule and its waiting tick if its revision is the given one. Otherwise it
// fails with bus.ErrConflict. Revision 0 removes the tick of an ended schedule.
func (js *Jobs) remove(ctx context.Context, kind, name string, revision uint64) error {
	if revision > 0 {
		err := js.bus.Purge(ctx, bus.Ticks, js.bus.Schedule(kind, name), revision+1) // keep what was put later
		if err != nil {
			return err
		}
	}
	end, err := js.end(ctx)
	if err != nil {
		return err
	}
	have, err := js.bus.Last(ctx, bus.Ticks, js.bus.Schedule(kind, name))
	if have.Sequence > 0 {
		end = have.Sequence // older messages belong to the schedule that was removed
	}
	if err == nil {
		err = js.bus.Purge(ctx, bus.Ticks, js.bus.Tick(kind, name), end)
	}
	if err == nil {
		err = js.bus.Purge(ctx, bus.Ticks, js.bus.RunOf(kind, name), end)
	}
	if err == nil && have.Sequence > 0 {
		err = bus.ErrConflict
	}
	return err
}

// removeTick removes the waiting tick of a schedule that was disabled, if it still is.
func (js *Jobs) removeTick(ctx context.Context, kind, name string) error {
	end, err := js.end(ctx)
	if err != nil {
		return err
	}
	have, err := js.bus.Last(ctx, bus.Ticks, js.bus.Schedule(kind, name))
	if err != nil || have.Sequence == 0 || have.Header.Get(jetstream.ScheduleHeader) != "" {
		return err
	}
	return js.bus.Purge(ctx, bus.Ticks, js.bus.Tick(kind, name), end)
}

// end returns the sequence of what is stored next. A caller that reads a schedule after that, and removes only what was
// stored before, keeps the ticks of a schedule that somebody adds or enables since.
func (js *Jobs) end(ctx context.Context) (sequence uint64, err error) {
	info, err := js.info(ctx)
	return info.State.LastSeq + 1, err
}

// info returns the state of the stream, and the time by the clock of its server.
func (js *Jobs) info(ctx context.Context) (info jetstream.StreamInfo, err error) {
	stream, err := js.bus.UsedStream(ctx, bus.Ticks)
	if stream == nil {
		return info, err
	}
	now, err := stream.Info(ctx)
	if err == nil {
		info = *now
	}
	return info, err
}
