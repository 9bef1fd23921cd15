package cron

import (
	"bytes"
	"cmp"
	"slices"
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

const (
	// defaultTickTTL is how long a tick waits for a worker. The stream keeps only
	// the newest tick of a schedule, so this limits lateness, not a burst.
	defaultTickTTL = 24 * time.Hour
	// onceTTL is longer, because no later tick replaces the only one.
	onceTTL = 30 * 24 * time.Hour
)

// message checks j and returns the message that stores it.
func (js *Jobs) message(j Job) (bus.Message, error) {
	body, err := j.encode()
	if err != nil {
		return bus.Message{}, err
	}
	return js.rawMessage(j, body, 0)
}

// rawMessage returns the message that stores a schedule with the times of j. ttl is how long its
// ticks wait for a worker; 0 means the default.
func (js *Jobs) rawMessage(j Job, body []byte, ttl time.Duration) (bus.Message, error) {
	pattern, err := j.pattern()
	if err != nil {
		return bus.Message{}, err
	}
	switch {
	case ttl > 0:
	case j.At.IsZero():
		ttl = defaultTickTTL
	default:
		ttl = onceTTL
	}
	kind, name := j.kind(), j.scheduleName()
	header := nats.Header{patternHeader: {pattern}, ttlHeader: {ttl.String()}}
	if j.TimeZone != "" {
		header.Set(zoneHeader, j.TimeZone)
	}
	if j.Disabled {
		header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // removes the server's own schedule
	} else {
		header.Set(jetstream.ScheduleHeader, pattern)
		header.Set(jetstream.ScheduleTargetHeader, js.bus.Tick(kind, name))
		header.Set(jetstream.ScheduleTTLHeader, ttl.String())
		if j.TimeZone != "" {
			header.Set(jetstream.ScheduleTimeZoneHeader, j.TimeZone)
		}
	}
	return bus.Message{Subject: js.bus.Schedule(kind, name), Body: body, Header: header}, nil
}

// same reports whether two messages store the same schedule.
func same(have nats.Header, body []byte, want bus.Message) bool {
	return bytes.Equal(body, want.Body) && !slices.ContainsFunc([]string{
		patternHeader, zoneHeader, ttlHeader,
		jetstream.ScheduleHeader, jetstream.ScheduleTargetHeader, jetstream.ScheduleTTLHeader, jetstream.ScheduleTimeZoneHeader,
	}, func(name string) bool { return have.Get(name) != want.Header.Get(name) })
}

// decodeEntry decodes a schedule of this package or of another client.
func decodeEntry(kind, name string, msg bus.Stored) Entry {
	header := func(server, ours string) string {
		return cmp.Or(msg.Header.Get(server), msg.Header.Get(ours))
	}
	e := Entry{
		Job:       parsePattern(header(jetstream.ScheduleHeader, patternHeader), header(jetstream.ScheduleTimeZoneHeader, zoneHeader)),
		ChangedAt: msg.At.UTC(), revision: msg.Sequence, body: msg.Body, ours: msg.Header.Get(patternHeader) != "",
	}
	e.foreign = e.decode(kind, name, msg.Body) != nil
	e.Disabled = msg.Header.Get(jetstream.ScheduleHeader) == ""
	e.ttl, _ = time.ParseDuration(header(jetstream.ScheduleTTLHeader, ttlHeader)) // absent means no limit
	e.from, _ = time.Parse(time.RFC3339Nano, msg.Header.Get(phaseHeader))         // absent means zero
	if e.from.IsZero() {
		e.from = msg.At.Round(time.Second) // as the server does
	}
	return e
}
