package schedule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// Store reads and changes the schedules in the server. It is safe for concurrent
// use.
type Store struct{ bus *bus.Bus }

// New returns the schedules of a bus.
func New(b *bus.Bus) *Store { return &Store{bus: b} }

// Put stores s and reports whether that changed anything. It does not write an
// unchanged schedule, because a write restarts the interval. So any number of
// processes may put the same schedule repeatedly.
func (st *Store) Put(ctx context.Context, s Schedule) (changed bool, err error) {
	want, err := st.message(s)
	if err != nil {
		return false, err
	}
	for range 10 { // other processes may put a different schedule at the same time
		have, err := st.last(ctx, want.Subject)
		if err != nil {
			return false, fmt.Errorf("put schedule %q: %w", s.Name, err)
		}
		if have.Sequence > 0 && sameSchedule(have, want) {
			return false, nil
		}
		err = st.publishAt(ctx, want, have.Sequence)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, bus.ErrConflict) { // also after a lost acknowledgement
			return false, fmt.Errorf("put schedule %q: %w", s.Name, err)
		}
	}
	return false, fmt.Errorf("put schedule %q: %w, 10 times in a row; do several processes put different schedules?", s.Name, bus.ErrConflict)
}

// Update stores s if its revision is the given one (0: s does not exist). Otherwise
// it fails with ErrConflict.
func (st *Store) Update(ctx context.Context, s Schedule, revision uint64) error {
	want, err := st.message(s)
	if err != nil {
		return err
	}
	err = st.publishAt(ctx, want, revision)
	if errors.Is(err, bus.ErrConflict) { // perhaps this write, whose acknowledgement was lost
		have, readErr := st.last(ctx, want.Subject)
		if readErr == nil && have.Sequence > revision && sameSchedule(have, want) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("put schedule %q: %w", s.Name, err)
	}
	return nil
}

func (st *Store) publishAt(ctx context.Context, m bus.Message, revision uint64) error {
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	_, err := st.bus.Publish(ctx, m)
	return err
}

// Get returns a schedule, or ok false if it does not exist.
func (st *Store) Get(ctx context.Context, kind, name string) (s Status, ok bool, err error) {
	if err := checkName(kind, name); err != nil {
		return Status{}, false, fmt.Errorf("get schedule: %w", err)
	}
	msg, err := st.last(ctx, st.bus.Schedule(kind, name))
	if err != nil || msg.Sequence == 0 {
		return Status{}, false, err
	}
	s = decode(kind, name, msg)
	tick, err := st.last(ctx, st.bus.Tick(kind, name))
	if err != nil {
		return Status{}, false, err
	}
	if !s.Disabled {
		s.Next = s.Schedule.next(s.start(), time.Now())
	}
	s.tick = tick.Sequence
	if tick.Sequence > 0 {
		var due time.Time
		s.Last, due = tickTimes(tick.Header.Get)
		if due.After(time.Now()) && tick.Sequence > s.Revision && !s.Disabled {
			s.Next = due
		}
	}
	return s, true, nil
}

// List lists the schedules of a kind, or all if kind is empty.
func (st *Store) List(ctx context.Context, kind string) iter.Seq2[Status, error] {
	return st.ListAfter(ctx, kind, "", nil)
}

// ListAfter is List without the schedules up to a position, "<kind>.<name>", by which they are
// sorted. If wanted is not nil, only the schedules that it selects are read.
func (st *Store) ListAfter(ctx context.Context, kind, position string, wanted func(kind, name string) bool) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		filter := kind
		if kind == "" {
			filter = "*"
		}
		stream, err := st.bus.UsedStream(ctx, bus.Ticks)
		if stream == nil && err == nil {
			return
		}
		if err != nil {
			yield(Status{}, fmt.Errorf("list schedules: %w", err))
			return
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(st.bus.Schedule(filter, "*")))
		if err != nil {
			yield(Status{}, fmt.Errorf("list schedules: %w", err))
			return
		}
		for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
			tokens := st.bus.Split(subject)
			if len(tokens) != 3 || bus.CheckSubject(subject) != nil {
				continue // not written by this package
			}
			if tokens[1]+"."+tokens[2] <= position || wanted != nil && !wanted(tokens[1], tokens[2]) {
				continue
			}
			s, ok, err := st.Get(ctx, tokens[1], tokens[2])
			if !ok && err == nil {
				continue // deleted in the meantime
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// Delete deletes a schedule and its waiting tick, and reports whether the schedule
// existed.
func (st *Store) Delete(ctx context.Context, kind, name string) (existed bool, err error) {
	var have bus.Stored
	if err = checkName(kind, name); err == nil {
		have, err = st.last(ctx, st.bus.Schedule(kind, name))
	}
	if err == nil {
		err = st.purge(ctx, 0, st.bus.Schedule(kind, name), st.bus.Tick(kind, name), st.bus.RunOf(kind, name))
	}
	if err != nil {
		return false, fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return have.Sequence > 0, nil
}

// DeleteRevision deletes a schedule and its waiting tick if its revision is the
// given one. Otherwise it fails with ErrConflict. Revision 0 deletes the tick of an
// ended schedule.
func (st *Store) DeleteRevision(ctx context.Context, kind, name string, revision uint64) error {
	err := checkName(kind, name)
	if err == nil && revision > 0 {
		err = st.purge(ctx, revision+1, st.bus.Schedule(kind, name)) // keep what was put later
	}
	var have bus.Stored
	if err == nil {
		have, err = st.last(ctx, st.bus.Schedule(kind, name))
	}
	switch {
	case have.Sequence > 0:
		err = bus.ErrConflict
	case err == nil:
		err = st.purge(ctx, 0, st.bus.Tick(kind, name), st.bus.RunOf(kind, name))
	}
	if err != nil {
		return fmt.Errorf("delete schedule %q: %w", name, err)
	}
	return nil
}

// purge removes the messages on the subjects, or those before a sequence if it is not
// 0.
func (st *Store) purge(ctx context.Context, before uint64, subjects ...string) error {
	stream, err := st.bus.UsedStream(ctx, bus.Ticks)
	if stream == nil {
		return err
	}
	for _, subject := range subjects {
		options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(subject)}
		if before > 0 {
			options = append(options, jetstream.WithPurgeSequence(before))
		}
		if err := stream.Purge(ctx, options...); err != nil {
			return err
		}
	}
	return nil
}

// GetEnded returns a schedule whose only tick the server has published, as long as
// the stream keeps that tick. Last is set, Revision is 0.
func (st *Store) GetEnded(ctx context.Context, kind, name string) (s Status, ok bool, err error) {
	if err := checkName(kind, name); err != nil {
		return Status{}, false, fmt.Errorf("get ended schedule: %w", err)
	}
	tick, err := st.last(ctx, st.bus.Tick(kind, name))
	if err != nil || tick.Sequence == 0 {
		return Status{}, false, err
	}
	due, next := tickTimes(tick.Header.Get)
	if due.IsZero() || !next.IsZero() {
		return Status{}, false, nil
	}
	s = Status{Schedule: Schedule{Kind: kind, Name: name, At: due, Body: tick.Body}, Since: tick.At, Last: due}
	return s, true, nil
}

// checkName rejects a name that is not one token of a subject.
func checkName(kind, name string) error {
	for _, token := range []string{kind, name} {
		if err := bus.CheckSubject(token); err != nil || strings.Contains(token, ".") || len(token) > 64 {
			return fmt.Errorf("the name %.80q is not of the form [A-Za-z0-9_-]{1,64}", token)
		}
	}
	return nil
}

// last returns the newest message on a subject of the stream of ticks.
func (st *Store) last(ctx context.Context, subject string) (bus.Stored, error) {
	return st.bus.Last(ctx, bus.Ticks, subject)
}
