package task

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// A result whose artifact store fails is put on the bus as a raw result in the queue of its call, which
// is then settled. The raw result waits for the store, also if the worker dies: the worker that gets it
// runs no tool.

// heldHeader marks such a raw result. Its value is when the tool started.
const heldHeader = "Stevedore-Held"

// Held returns the raw result that replaces a call; ok is false if it has more than limit bytes, or
// cannot be told as one.
func Held(s bus.Subjects, d *Delivered, res *tools.Result, limit int64) (m bus.Message, ok bool) {
	if d.Raw != nil || d.Invalid != nil {
		return m, false
	}
	raw, ok := tools.RawOf(d.Call, res, limit)
	if !ok {
		return m, false
	}
	body, err := bus.Encode(raw)
	m = bus.Message{
		Subject: s.Raw(d.Queue, d.Call.Tool, d.Key.Session, d.Key.ID), Body: body,
		Header: nats.Header{heldHeader: {d.Resumed.Started.Format(time.RFC3339Nano)}},
	}
	return m, err == nil && int64(len(body)) <= limit
}

// takeHeld takes what a raw result says of the call that it replaces.
func (d *Delivered) takeHeld() {
	if at, err := time.Parse(time.RFC3339Nano, d.Header(heldHeader)); err == nil {
		d.Digest, d.Resumed.Started = d.Call.Digest(), at
	}
}

// isHeld reports whether a raw result has replaced a delivered call: its worker died before it
// acknowledged the call.
func (l *Locator) isHeld(ctx context.Context, d *Delivered) (held bool, err error) {
	if d.Raw != nil {
		return false, nil
	}
	err = l.Results.read(ctx, func() error {
		last, err := l.Bus.Last(ctx, bus.Calls, l.Bus.Raw(d.Queue, d.Call.Tool, d.Key.Session, d.Key.ID))
		held = err == nil && last.Sequence > 0
		return err
	})
	return held, err
}
