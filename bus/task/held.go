package task

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// A result whose artifact store fails is put on the bus as a raw result in the queue of its call, which
// is then settled. The raw result waits for the store, also if the worker dies: the worker that gets it
// runs no tool. If its text is larger than a message, it is in an object beside it.

// heldHeader marks such a raw result. Its value is when the tool started.
const heldHeader = "Stevedore-Held"

// Held returns the raw result that replaces a call. The text of one that has more than limit bytes is put
// into an object. ok is false if the result cannot be told as a raw one, or the bus does not take the object.
func Held(ctx context.Context, b *bus.Bus, d *Delivered, res *tools.Result, limit int64) (m bus.Message, ok bool) {
	if d.Raw != nil || d.Invalid != nil {
		return m, false
	}
	raw, ok := tools.RawOf(d.Call, res, limit)
	if !ok {
		if raw, ok = d.putHeld(ctx, b, res, limit); !ok {
			return m, false
		}
	}
	body, err := bus.Encode(raw)
	m = bus.Message{
		Subject: b.Raw(d.Queue, d.Call.Tool, d.Key.Session, d.Key.ID), Body: body,
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

// heldObject is the name of the object, in the bucket of the bytes of artifacts, that has the text of a held
// result.
func (d *Delivered) heldObject() string { return d.Key.Session + "/held-" + d.Key.ID }

func heldObjects(ctx context.Context, b *bus.Bus) (jetstream.ObjectStore, error) {
	return b.JetStream().ObjectStore(ctx, b.BucketName(bus.BlobsBucket))
}

// putHeld puts the text of a result into an object, and returns the raw result that names it.
func (d *Delivered) putHeld(ctx context.Context, b *bus.Bus, res *tools.Result, limit int64) (raw tools.RawEvent, ok bool) {
	var text io.Reader = strings.NewReader(res.ForLLM)
	rest := *res
	rest.ForLLM, rest.Output = "", nil
	if raw, ok = tools.RawOf(d.Call, &rest, limit); !ok || res.Blocks != nil {
		return raw, false
	}
	if out := res.Output; out != nil {
		note, err := io.ReadAll(io.NewSectionReader(out, out.Written(), limit))
		if err != nil || out.Err() != nil || out.Truncated() {
			return raw, false
		}
		text, raw.Note = io.NewSectionReader(out, 0, out.Written()), string(note)
	}
	raw.ForLLM, raw.Object = nil, d.heldObject()
	objects, err := heldObjects(ctx, b)
	if err == nil {
		_, err = objects.Put(ctx, jetstream.ObjectMeta{Name: raw.Object}, text)
	}
	return raw, err == nil
}

// HeldApart reports whether a delivery is a held result whose text is in an object.
func (d *Delivered) HeldApart() bool {
	return d.Raw != nil && d.Raw.Object == d.heldObject() && d.Header(heldHeader) != ""
}

// HeldText returns the text of a held result that is in an object, with its note; nil for other results.
func (d *Delivered) HeldText(ctx context.Context, b *bus.Bus) (text *tools.Output, err error) {
	if !d.HeldApart() {
		return nil, nil
	}
	objects, err := heldObjects(ctx, b)
	if err != nil {
		return nil, err
	}
	object, err := objects.Get(ctx, d.Raw.Object)
	if err != nil {
		return nil, err
	}
	if info, err := object.Info(); err != nil || info.Name != d.Raw.Object { // a link to that of another session
		return nil, errors.Join(err, object.Close(), errors.New("the object of a held result is a link"))
	}
	text = tools.NewOutput(tools.OutputLimits{})
	if _, err = io.Copy(text, object); d.Raw.Note != "" {
		text.Note(strings.TrimPrefix(d.Raw.Note, "\n"))
	}
	return text, errors.Join(err, object.Close(), text.Err())
}

// RemoveHeld removes the object of a held result.
func (d *Delivered) RemoveHeld(ctx context.Context, b *bus.Bus) error {
	objects, err := heldObjects(ctx, b)
	if err == nil {
		err = objects.Delete(ctx, d.heldObject())
	}
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	return err
}

// isHeld reports whether a raw result has replaced a delivered call: its worker died before it
// acknowledged the call. One that cannot be decoded has no result.
func (l *Locator) isHeld(ctx context.Context, d *Delivered) (held bool, err error) {
	if d.Raw != nil {
		return false, nil
	}
	err = l.Results.read(ctx, func() error {
		last, err := l.Bus.Last(ctx, bus.Calls, l.Bus.Raw(d.Queue, d.Call.Tool, d.Key.Session, d.Key.ID))
		if held = err == nil && last.Sequence > 0; held {
			_, damaged := tools.DecodeRaw(last.Body)
			held = damaged == nil
		}
		return err
	})
	return held, err
}
