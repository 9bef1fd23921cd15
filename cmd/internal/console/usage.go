package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/cron"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/agent"
)

// hour is what happened in an hour.
type hour struct {
	At     time.Time `json:"at"`
	Calls  int       `json:"calls"` // that ended
	Failed int       `json:"failed"`
	Tokens int64     `json:"tokens"`
	Cost   float64   `json:"cost"`
}

// day counts what happened in the last 24 hours. It reads each message once.
type day struct {
	bus *bus.Bus

	mu    sync.Mutex
	hours map[int64]*hour // by the hour since 1970
	jobs  map[string]*jobDay
	next  map[string]uint64
}

// jobDay is what a job, or a heartbeat, did in the last day.
type jobDay struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Session string `json:"session"` // token; jobs of several sessions may have one name
	// Slots are the parts of the day in which it ran, oldest first.
	Slots []slot `json:"slots"`
	// Last is its last run, LastFailed the last one that failed.
	Last       *tools.CallKey `json:"last"`
	LastFailed *tools.CallKey `json:"last_failed,omitempty"`
}

// slot is what a job did from At until slotLength later.
type slot struct {
	At     time.Time `json:"at"`
	Runs   int       `json:"runs"` // that ended
	Failed int       `json:"failed"`
	MS     int64     `json:"ms"` // of the longest run, in milliseconds
}

const (
	dayHours = 24
	// slotLength is short enough to see when a job ran, and bounds the marks of one that runs each second.
	slotLength = 10 * time.Minute
	// maxDayScan limits the messages of a stream that one request reads.
	maxDayScan = 20_000
)

// read returns the hours, the oldest first. more is true if it has not read all messages yet:
// the next request goes on.
func (d *day) read(r *http.Request) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().Unix() / 3600
	if d.hours == nil {
		d.hours, d.jobs, d.next = map[int64]*hour{}, map[string]*jobDay{}, map[string]uint64{}
	}
	more := false
	for stream, subject := range map[string]string{bus.Results: d.bus.ResultsOf("*"), bus.Sessions: d.bus.Session("*")} {
		q := bus.Query{Subject: subject, From: d.next[stream], Limit: maxDayScan}
		if q.From == 0 {
			q.Since = time.Unix((now-dayHours+1)*3600, 0)
		}
		n := 0
		for m, err := range d.bus.Read(r.Context(), stream, q) {
			if err != nil {
				if r.Context().Err() == nil {
					d.hours = nil // the stream may be a new one
				}
				return nil, fmt.Errorf("read the last day: %w", err)
			}
			d.next[stream] = m.Sequence + 1
			d.add(stream, m)
			n++
		}
		more = more || n == maxDayScan
	}
	maps.DeleteFunc(d.hours, func(at int64, _ *hour) bool { return at <= now-dayHours })
	hours := []hour{}
	for at := now - dayHours + 1; at <= now; at++ {
		h := hour{At: time.Unix(at*3600, 0).UTC()}
		if d.hours[at] != nil {
			h = *d.hours[at]
		}
		hours = append(hours, h)
	}
	return map[string]any{"hours": hours, "jobs": d.lines(hours[0].At), "slot_ms": slotLength.Milliseconds(), "more": more}, nil
}

// lines returns the jobs that ran since a time, heartbeats first, and forgets the others.
func (d *day) lines(since time.Time) []jobDay {
	for key, j := range d.jobs {
		j.Slots = slices.DeleteFunc(j.Slots, func(s slot) bool { return s.At.Before(since) })
		if len(j.Slots) == 0 {
			delete(d.jobs, key)
		}
		if !slices.ContainsFunc(j.Slots, func(s slot) bool { return s.Failed > 0 }) {
			j.LastFailed = nil
		}
	}
	jobs := []jobDay{}
	for _, j := range d.jobs {
		c := *j
		c.Slots = slices.Clone(j.Slots) // it is encoded while another request changes them
		jobs = append(jobs, c)
	}
	slices.SortFunc(jobs, func(a, b jobDay) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Session, b.Session))
	})
	return jobs
}

func (d *day) add(stream string, m bus.Stored) {
	var entry struct{ Usage agent.Usage }
	_, e, ok := task.EndingOf(d.bus, m)
	if stream == bus.Sessions {
		ok = json.Unmarshal(m.Body, &entry) == nil
	}
	if !ok {
		return
	}
	at := m.At.Unix() / 3600
	h := d.hours[at]
	if h == nil {
		h = &hour{At: time.Unix(at*3600, 0).UTC()}
		d.hours[at] = h
	}
	switch {
	case stream == bus.Sessions:
		used := agent.Usage{Cost: h.Cost}
		used.Add(&entry.Usage)
		h.Tokens, h.Cost = h.Tokens+used.Total(), used.Cost
	case e.Outcome != tools.Async: // it will have a completion
		failed := e.Outcome == tools.Failed || e.Outcome == tools.Timeout || e.Outcome == tools.Unknown
		h.Calls++
		if failed {
			h.Failed++
		}
		if name, ok := cron.ParseCallID(e.ID); ok && bus.IsScheduled(e.Action) {
			if e.StartedAt.After(m.At) || m.At.Sub(e.StartedAt) > dayHours*time.Hour { // forged, or before the day
				e.StartedAt = m.At
			}
			d.addRun(e.Action, name, tools.CallKey{Session: e.Session, ID: e.ID}, e.StartedAt, e.DurationMS, failed)
		}
	}
}

func (d *day) addRun(kind, name string, call tools.CallKey, at time.Time, ms int64, failed bool) {
	key := kind + "." + call.Session + "." + name
	j := d.jobs[key]
	if j == nil {
		if len(d.jobs) == maxSchedules {
			return
		}
		j = &jobDay{Kind: kind, Name: name, Session: call.Session}
		d.jobs[key] = j
	}
	// Results arrive in the order of their ends; almost always, their starts have the same.
	at = at.UTC().Truncate(slotLength)
	i, found := slices.BinarySearchFunc(j.Slots, at, func(s slot, at time.Time) int { return s.At.Compare(at) })
	if !found {
		j.Slots = slices.Insert(j.Slots, i, slot{At: at})
	}
	s := &j.Slots[i]
	s.Runs, s.MS, j.Last = s.Runs+1, max(s.MS, ms), &call
	if failed {
		s.Failed, j.LastFailed = s.Failed+1, &call
	}
}
