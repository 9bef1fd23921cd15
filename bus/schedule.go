package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Kinds of schedules.
const (
	Heartbeat = "heartbeat"
	Cron      = "cron"
)

const (
	// minEvery is what the server can do.
	minEvery = time.Second
	// defaultTickTTL is how long a tick may wait for a worker. Of several that
	// wait only the newest is kept, so that it bounds lateness, not a burst.
	defaultTickTTL = 24 * time.Hour
	// onceTTL: a one-shot has no successor that would make up for it.
	onceTTL = 30 * 24 * time.Hour
)

// Schedule makes the server publish ticks; whoever put it there need not run.
// Exactly one of Every, Cron and At is set.
type Schedule struct {
	// Kind is Heartbeat or Cron, Name a token; together they name the schedule.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Every is the interval between ticks, in whole seconds. The first tick
	// comes one interval after the schedule was put.
	Every time.Duration `json:"every,omitempty"`
	// Cron is an expression of 5 fields, or 6 with seconds first, or @hourly,
	// @daily, @weekly, @monthly, @yearly.
	Cron string `json:"cron,omitempty"`
	// TimeZone is the IANA zone that Cron is meant in. Default UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// At is the time of the only tick, after which the schedule is gone.
	At time.Time `json:"at,omitzero"`
	// TTL is how long a tick waits for a worker. Default 24 h, for At 30 days.
	TTL time.Duration `json:"ttl,omitempty"`
	// Disabled keeps the schedule and lets it make no ticks.
	Disabled bool `json:"disabled,omitempty"`
	// Body of each tick.
	Body []byte `json:"-"`
}

// Scheduled is a schedule as it stands in the server.
type Scheduled struct {
	Schedule
	// Revision changes with each change; Since is when the last one was.
	Revision uint64    `json:"revision"`
	Since    time.Time `json:"since"`
	// Last is the slot of the newest tick, if that is still kept; Next is when
	// the next one is due.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
}

// PutSchedule puts s into the server and reports whether that changed
// anything. An unchanged schedule is not written again, because that would
// restart its interval; so any number of processes may put the same one as
// often as they like.
func (b *Bus) PutSchedule(ctx context.Context, s Schedule) (changed bool, err error) {
	want, err := b.scheduleMessage(s)
	if err != nil {
		return false, err
	}
	for range 10 { // others that put it too, with something else in mind, give up some time
		have, err := b.rawSchedule(ctx, want.Subject)
		if err != nil {
			return false, fmt.Errorf("put schedule %q: %w", s.Name, err)
		}
		var revision uint64
		if have != nil {
			if sameSchedule(have, want) {
				return false, nil
			}
			revision = have.Sequence
		}
		err = b.publishAt(ctx, want, revision)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, ErrConflict) { // a lost acknowledgement ends here too
			return false, fmt.Errorf("put schedule %q: %w", s.Name, err)
		}
	}
	return false, fmt.Errorf("put schedule %q: %w, again and again; do several processes disagree about it?", s.Name, ErrConflict)
}

// ReplaceSchedule puts s if its revision is still the given one, 0 for none;
// otherwise it fails with ErrConflict.
func (b *Bus) ReplaceSchedule(ctx context.Context, s Schedule, revision uint64) error {
	want, err := b.scheduleMessage(s)
	if err != nil {
		return err
	}
	err = b.publishAt(ctx, want, revision)
	if errors.Is(err, ErrConflict) { // or it was this very one, whose acknowledgement was lost
		have, readErr := b.rawSchedule(ctx, want.Subject)
		if readErr == nil && have != nil && have.Sequence > revision && sameSchedule(have, want) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("put schedule %q: %w", s.Name, err)
	}
	return nil
}

func (b *Bus) publishAt(ctx context.Context, m Message, revision uint64) error {
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	_, err := b.Publish(ctx, m)
	return err
}

// GetSchedule returns a schedule, or ok false if there is none of that name.
func (b *Bus) GetSchedule(ctx context.Context, kind, name string) (s Scheduled, ok bool, err error) {
	if err := checkName(kind, name); err != nil {
		return Scheduled{}, false, fmt.Errorf("get schedule: %w", err)
	}
	msg, err := b.rawSchedule(ctx, b.Schedule(kind, name))
	if err != nil || msg == nil {
		return Scheduled{}, false, err
	}
	s = readSchedule(kind, name, msg)
	tick, err := b.rawSchedule(ctx, b.Tick(kind, name))
	if err != nil {
		return Scheduled{}, false, err
	}
	if !s.Disabled {
		s.Next = s.Schedule.next(s.Since, time.Now())
	}
	if tick != nil {
		var due time.Time
		s.Last, due = tickTimes(tick.Header)
		if due.After(time.Now()) && tick.Sequence > s.Revision && !s.Disabled {
			s.Next = due
		}
	}
	return s, true, nil
}

// Schedules lists the schedules of a kind, or all if kind is empty.
func (b *Bus) Schedules(ctx context.Context, kind string) iter.Seq2[Scheduled, error] {
	return func(yield func(Scheduled, error) bool) {
		filter := kind
		if kind == "" {
			filter = "*"
		}
		stream, err := b.streamHandle(ctx, Ticks)
		if err != nil {
			yield(Scheduled{}, fmt.Errorf("list schedules: %w", err))
			return
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(b.Schedule(filter, "*")))
		if err != nil {
			yield(Scheduled{}, fmt.Errorf("list schedules: %w", err))
			return
		}
		for _, subject := range sortedKeys(info.State.Subjects) {
			tokens := b.Split(subject)
			if len(tokens) != 3 || CheckSubject(subject) != nil {
				continue // not one that we wrote
			}
			s, ok, err := b.GetSchedule(ctx, tokens[1], tokens[2])
			if !ok && err == nil {
				continue // deleted meanwhile
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// DeleteSchedule removes a schedule and its waiting tick, and reports whether
// it was there.
func (b *Bus) DeleteSchedule(ctx context.Context, kind, name string) (existed bool, err error) {
	if err := checkName(kind, name); err != nil {
		return false, fmt.Errorf("delete schedule: %w", err)
	}
	stream, err := b.streamHandle(ctx, Ticks)
	if err != nil {
		return false, fmt.Errorf("delete schedule %q: %w", name, err)
	}
	msg, err := b.rawSchedule(ctx, b.Schedule(kind, name))
	if err != nil {
		return false, fmt.Errorf("delete schedule %q: %w", name, err)
	}
	for _, subject := range []string{b.Schedule(kind, name), b.Tick(kind, name), b.RunOf(kind, name)} {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return false, fmt.Errorf("delete schedule %q: %w", name, err)
		}
	}
	return msg != nil, nil
}

// RemoveSchedule removes a schedule and its waiting tick if its revision is
// still the given one; otherwise it fails with ErrConflict. Revision 0 removes
// the tick of one that has ended.
func (b *Bus) RemoveSchedule(ctx context.Context, kind, name string, revision uint64) error {
	if err := checkName(kind, name); err != nil {
		return fmt.Errorf("remove schedule: %w", err)
	}
	stream, err := b.streamHandle(ctx, Ticks)
	if err != nil {
		return fmt.Errorf("remove schedule %q: %w", name, err)
	}
	subject := b.Schedule(kind, name)
	if revision > 0 { // up to it, and nothing that was put there since
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(revision+1)); err != nil {
			return fmt.Errorf("remove schedule %q: %w", name, err)
		}
	}
	switch have, err := b.rawSchedule(ctx, subject); {
	case err != nil:
		return fmt.Errorf("remove schedule %q: %w", name, err)
	case have != nil:
		return fmt.Errorf("remove schedule %q: %w", name, ErrConflict)
	}
	for _, subject := range []string{b.Tick(kind, name), b.RunOf(kind, name)} {
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return fmt.Errorf("remove schedule %q: %w", name, err)
		}
	}
	return nil
}

// EndedSchedule returns a schedule whose only tick was made, for as long as that
// tick is kept; its Last is set. It has no revision.
func (b *Bus) EndedSchedule(ctx context.Context, kind, name string) (s Scheduled, ok bool, err error) {
	if err := checkName(kind, name); err != nil {
		return Scheduled{}, false, fmt.Errorf("get ended schedule: %w", err)
	}
	tick, err := b.rawSchedule(ctx, b.Tick(kind, name))
	if err != nil || tick == nil {
		return Scheduled{}, false, err
	}
	slot, next := tickTimes(tick.Header)
	if slot.IsZero() || !next.IsZero() {
		return Scheduled{}, false, nil
	}
	s = Scheduled{Schedule: Schedule{Kind: kind, Name: name, At: slot, Body: tick.Data}, Since: tick.Time, Last: slot}
	return s, true, nil
}

// checkName refuses what would not be one token of a subject.
func checkName(kind, name string) error {
	for _, token := range []string{kind, name} {
		if err := CheckSubject(token); err != nil || strings.Contains(token, ".") || len(token) > 64 {
			return fmt.Errorf("the name %.80q is not of the form [A-Za-z0-9_-]{1,64}", token)
		}
	}
	return nil
}

// rawSchedule returns the newest message on a subject of the stream of ticks,
// or nil.
func (b *Bus) rawSchedule(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	stream, err := b.streamHandle(ctx, Ticks)
	if err != nil {
		return nil, err
	}
	msg, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", subject, err)
	}
	return msg, nil
}

// Headers of a schedule. These are ours; they are there whether it is enabled
// or not, and are copied to its ticks, which lack the server's.
const (
	patternHeader = "Stevedore-Schedule"
	zoneHeader    = "Stevedore-Time-Zone"
	ttlHeader     = "Stevedore-Tick-TTL"
)

func (b *Bus) scheduleMessage(s Schedule) (Message, error) {
	pattern, err := s.pattern()
	if err == nil {
		err = checkName(s.Kind, s.Name)
	}
	if err != nil {
		return Message{}, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	ttl := s.TTL
	switch {
	case ttl > 0:
		ttl = max(ttl, time.Second)
	case s.At.IsZero():
		ttl = defaultTickTTL
	default:
		ttl = onceTTL
	}
	header := nats.Header{patternHeader: {pattern}, ttlHeader: {ttl.String()}}
	if s.TimeZone != "" {
		header.Set(zoneHeader, s.TimeZone)
	}
	if s.Disabled {
		header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // the server takes its own off the clock
	} else {
		header.Set(jetstream.ScheduleHeader, pattern)
		header.Set(jetstream.ScheduleTargetHeader, b.Tick(s.Kind, s.Name))
		header.Set(jetstream.ScheduleTTLHeader, ttl.String())
		if s.TimeZone != "" {
			header.Set(jetstream.ScheduleTimeZoneHeader, s.TimeZone)
		}
	}
	return Message{Subject: b.Schedule(s.Kind, s.Name), Body: s.Body, Header: header}, nil
}

func sameSchedule(have *jetstream.RawStreamMsg, want Message) bool {
	for _, name := range []string{
		patternHeader, zoneHeader, ttlHeader,
		jetstream.ScheduleHeader, jetstream.ScheduleTargetHeader, jetstream.ScheduleTTLHeader, jetstream.ScheduleTimeZoneHeader,
	} {
		if have.Header.Get(name) != want.Header.Get(name) {
			return false
		}
	}
	return bytes.Equal(have.Data, want.Body)
}

// readSchedule reads a schedule that we wrote, or somebody else.
func readSchedule(kind, name string, msg *jetstream.RawStreamMsg) Scheduled {
	header := func(theirs, ours string) string {
		if value := msg.Header.Get(theirs); value != "" {
			return value
		}
		return msg.Header.Get(ours)
	}
	s := Scheduled{
		Schedule: parsePattern(header(jetstream.ScheduleHeader, patternHeader), header(jetstream.ScheduleTimeZoneHeader, zoneHeader)),
		Revision: msg.Sequence, Since: msg.Time,
	}
	s.Kind, s.Name, s.Body = kind, name, msg.Data
	s.TTL, _ = time.ParseDuration(header(jetstream.ScheduleTTLHeader, ttlHeader)) // absent means no limit
	s.Disabled = msg.Header.Get(jetstream.ScheduleHeader) == ""
	return s
}
