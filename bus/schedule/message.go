package schedule

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
)

// Headers of a schedule that the server does not interpret. Disabled schedules have
// them too, and the server copies them to the ticks.
const (
	patternHeader = "Stevedore-Schedule"
	zoneHeader    = "Stevedore-Time-Zone"
	ttlHeader     = "Stevedore-Tick-TTL"
)

// message encodes s for the server.
func (st *Store) message(s Schedule) (bus.Message, error) {
	pattern, err := s.pattern()
	if err == nil {
		err = checkName(s.Kind, s.Name)
	}
	if err != nil {
		return bus.Message{}, fmt.Errorf("schedule %q: %w", s.Name, err)
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
		header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // removes the server's own schedule
	} else {
		header.Set(jetstream.ScheduleHeader, pattern)
		header.Set(jetstream.ScheduleTargetHeader, st.bus.Tick(s.Kind, s.Name))
		header.Set(jetstream.ScheduleTTLHeader, ttl.String())
		if s.TimeZone != "" {
			header.Set(jetstream.ScheduleTimeZoneHeader, s.TimeZone)
		}
	}
	return bus.Message{Subject: st.bus.Schedule(s.Kind, s.Name), Body: s.Body, Header: header}, nil
}

func sameSchedule(have bus.Stored, want bus.Message) bool {
	for _, name := range []string{
		patternHeader, zoneHeader, ttlHeader,
		jetstream.ScheduleHeader, jetstream.ScheduleTargetHeader, jetstream.ScheduleTTLHeader, jetstream.ScheduleTimeZoneHeader,
	} {
		if have.Header.Get(name) != want.Header.Get(name) {
			return false
		}
	}
	return bytes.Equal(have.Body, want.Body)
}

// decode decodes a schedule of this package or of another client.
func decode(kind, name string, msg bus.Stored) Status {
	header := func(server, ours string) string {
		return cmp.Or(msg.Header.Get(server), msg.Header.Get(ours))
	}
	s := Status{
		Schedule: parsePattern(header(jetstream.ScheduleHeader, patternHeader), header(jetstream.ScheduleTimeZoneHeader, zoneHeader)),
		Revision: msg.Sequence, Since: msg.At,
	}
	s.Kind, s.Name, s.Body = kind, name, msg.Body
	s.TTL, _ = time.ParseDuration(header(jetstream.ScheduleTTLHeader, ttlHeader)) // absent means no limit
	s.Disabled = msg.Header.Get(jetstream.ScheduleHeader) == ""
	s.ours = msg.Header.Get(patternHeader) != ""
	s.phase, _ = time.Parse(time.RFC3339Nano, msg.Header.Get(phaseHeader)) // absent: none
	return s
}
