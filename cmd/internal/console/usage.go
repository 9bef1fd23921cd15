package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
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
	next  map[string]uint64
}

const (
	dayHours = 24
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
		d.hours, d.next = map[int64]*hour{}, map[string]uint64{}
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
	return map[string]any{"hours": hours, "more": more}, nil
}

func (d *day) add(stream string, m bus.Stored) {
	var e struct {
		Outcome tools.Outcome `json:"outcome"`
		Usage   struct {
			Input  int64   `json:"input_tokens"`
			Output int64   `json:"output_tokens"`
			Cost   float64 `json:"cost"`
		} `json:"usage"`
	}
	kind := d.bus.Split(m.Subject)[0]
	if json.Unmarshal(m.Body, &e) != nil || stream == bus.Results && kind != task.ResultKind && kind != task.CompletionKind {
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
		h.Tokens += e.Usage.Input + e.Usage.Output
		h.Cost += e.Usage.Cost
	case e.Outcome != tools.Async: // it will have a completion
		h.Calls++
		if e.Outcome == tools.Failed || e.Outcome == tools.Timeout || e.Outcome == tools.Unknown {
			h.Failed++
		}
	}
}
