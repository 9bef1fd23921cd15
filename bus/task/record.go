package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/tools"
)

// Record is what the bucket of tasks holds about a call that needs more than its message
// and its result. Each change names the revision that it replaces, so none is lost.
type Record struct {
	// Cancelled is when the call was cancelled. From then on, no worker starts it.
	Cancelled time.Time `json:"cancelled,omitzero"`
	// Starts counts the starts of deliveries after the first one. Stopped is set if the
	// stop of a worker ended the first one, which then is no attempt.
	Starts  int  `json:"starts,omitempty"`
	Stopped bool `json:"stopped,omitempty"`
	// Retried is the sequence of the call's last message whose dead letter somebody retried. What a worker says
	// later, that gave up on it, does not count.
	Retried uint64 `json:"retried,omitempty"`
	// Ahead is the sequence of the call's message if a worker started it before the consumer of
	// the queue delivered it.
	Ahead uint64 `json:"ahead,omitempty"`
	// Parked is set while the call is parked. Parks counts how often it was.
	Parked *Parked `json:"parked,omitempty"`
	Parks  uint64  `json:"parks,omitempty"`
	// Made are the calls that the call made and waited for when it was parked last. They are
	// cancelled with it.
	Made []tools.CallKey `json:"made,omitempty"`
	// Asked is when a person was last asked whether the call may run; Answer is the answer.
	Asked  time.Time `json:"asked_at,omitzero"`
	Answer *Answer   `json:"answer,omitempty"`
	// Stops are the calls that the user's message with this id stops.
	Stops []string `json:"stops,omitempty"`

	// Damaged says why the record cannot be read; ListRecords returns such ones too.
	Damaged error `json:"-"`

	key      tools.CallKey
	ttl      time.Duration // of the change
	revision uint64        // 0 if there is no record
	changed  time.Time     // by the clock of the server
}

// Key names the call.
func (r Record) Key() tools.CallKey { return r.key }

// EntryKey is the key of the record in the bucket of tasks.
func (r Record) EntryKey() string { return keyOf(r.key) }

// Asks reports whether the call waits for a person's answer. One that was cancelled does not, although its wait may not have ended.
func (r Record) Asks() bool {
	return r.Parked != nil && r.Parked.State == InputRequired && r.Answer == nil && r.Cancelled.IsZero()
}

// Answer is a person's answer. The first one counts.
type Answer struct {
	Approve bool `json:"approve"`
	// By says who answered, such as "telegram:12345"; Reason is a text for the model.
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// Digest of the call, so that no other call with the same id is approved.
	Digest string `json:"call_digest"`
	// Expired is set if nobody answered in time.
	Expired bool `json:"expired,omitempty"`
}

const (
	recordKey = "call"
	// recordTTL is how long a record is kept after its last change, or as long as a result if those stay
	// longer. That of a parked call has no limit.
	recordTTL = bus.ResultsKept
	// aheadTTL is the same for a record that says only that the call was started ahead. Later,
	// a call that still runs then may run a second time.
	aheadTTL = time.Hour
	// maxConflicts is how often a change is repeated because the record changed meanwhile.
	maxConflicts = 20
)

func keyOf(k tools.CallKey) string { return strings.Join([]string{recordKey, k.Session, k.ID}, ".") }

// ReadRecord reads the record of a call; without one, it is empty.
func ReadRecord(ctx context.Context, b *bus.Bus, k tools.CallKey) (Record, error) {
	m, err := b.Entry(ctx, keyOf(k))
	if err != nil {
		return Record{}, fmt.Errorf("read the record of call %s: %w", k.ID, err)
	}
	r := Record{key: k, revision: m.Sequence, changed: m.Time}
	if len(m.Data) == 0 { // there is none, or it expired
		return r, nil
	}
	return r, r.decode(m.Data)
}

// ErrUnchanged ends a change that has nothing to write.
var ErrUnchanged = errors.New("the record stays as it is")

// ChangeRecord changes the record of a call and returns it. change may be called several
// times; its error ends the change and is returned, unless it is ErrUnchanged.
func ChangeRecord(ctx context.Context, b *bus.Bus, k tools.CallKey, change func(r *Record) error) (Record, error) {
	results, err := b.Stream(ctx, bus.Results)
	if err != nil {
		return Record{}, err
	}
	for conflicts := 0; ; conflicts++ {
		r, err := ReadRecord(ctx, b, k)
		if err != nil {
			return Record{}, err
		}
		r.ttl = max(results.CachedInfo().Config.MaxAge, recordTTL)
		switch err := change(&r); {
		case errors.Is(err, ErrUnchanged):
			return r, nil
		case err != nil:
			return r, err
		}
		err = r.store(ctx, b)
		if !errors.Is(err, bus.ErrConflict) || conflicts == maxConflicts {
			return r, err
		}
		if err := tools.Sleep(ctx, time.Duration(conflicts)*5*time.Millisecond); err != nil {
			return Record{}, err
		}
	}
}

// store writes the record in place of the revision that was read.
func (r *Record) store(ctx context.Context, b *bus.Bus) error {
	body, err := bus.Encode(r)
	if err != nil {
		return err
	}
	ttl := time.Duration(0)
	if r.Parked == nil {
		ttl = r.ttl
	}
	revision, err := b.PutEntry(ctx, keyOf(r.key), body, r.revision, ttl)
	if err != nil {
		return fmt.Errorf("store the record of call %s: %w", r.key.ID, err)
	}
	r.revision = revision
	return nil
}

// decode decodes a stored record. One that no worker wrote is an error.
func (r *Record) decode(body []byte) error {
	err := json.Unmarshal(body, r)
	if p := r.Parked; err == nil && p != nil {
		if p.Key() != r.key || !tools.IsToken(p.Queue) || p.Call.Validate() != nil {
			err = errors.New("it has another call, or an invalid one")
		}
		p.Number = r.Parks
		if p.Stored.IsZero() { // not changed since
			p.Stored = r.changed
		}
	}
	if err != nil {
		return fmt.Errorf("decode the record of call %s: %w", r.key.ID, err)
	}
	return nil
}

// decodeEntry decodes a stored record; ok is false if it is not that of a call. A record that
// expired has no value and is empty.
func decodeEntry(key string, revision uint64, changed time.Time, value []byte) (r Record, ok bool) {
	tokens := strings.Split(key, ".")
	if len(tokens) != 3 {
		return Record{}, false
	}
	r = Record{key: tools.CallKey{Session: tokens[1], ID: tokens[2]}, revision: revision, changed: changed}
	if len(value) > 0 {
		if err := r.decode(value); err != nil {
			r = Record{key: r.key, revision: revision, changed: changed, Damaged: err}
		}
	}
	return r, true
}

// listTimeout limits the reading of all records.
const listTimeout = 10 * time.Second

// ListRecords calls f for each record of a session, or of all sessions if it is "*". It
// needs no consumer, which the role for reading may not create. One that changes meanwhile may come twice, the newer one last.
func ListRecords(ctx context.Context, b *bus.Bus, session string, f func(Record)) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	prefix := b.EntrySubject("")
	get := jsapi.Get{NextBySubject: prefix + keyOf(tools.CallKey{Session: session, ID: "*"}), Sequence: 1, Batch: 256, MaxBytes: 4 << 20}
	for m, err := range b.API().AllMessages(ctx, b.BucketStream(bus.TasksBucket), get) {
		if err != nil {
			return fmt.Errorf("list the records of calls: %w", err)
		}
		if len(m.Data) == 0 { // it expired
			continue
		}
		if r, ok := decodeEntry(strings.TrimPrefix(m.Subject, prefix), m.Sequence, m.Time, m.Data); ok {
			f(r)
		}
	}
	return nil
}

var (
	errWatchEnded  = errors.New("watch the records of calls: the watch ended")
	errReconnected = errors.New("watch the records of calls: the connection was lost")
)

// watchRecords calls f for each record and for each change, until ctx ends or the connection was lost. It calls ready
// after the records that exist.
func watchRecords(ctx context.Context, b *bus.Bus, connected <-chan nats.Status, f func(Record), ready func()) error {
	watcher, err := bus.WatchKeys(ctx, b, bus.TasksBucket, keyOf(tools.CallKey{Session: "*", ID: "*"}))
	if err != nil {
		return fmt.Errorf("watch the records of calls: %w", err)
	}
	defer func() { _ = watcher.Stop() }() // fails if ctx ended the watch first
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-connected:
			return errReconnected
		case entry, ok := <-watcher.Updates():
			switch {
			case ctx.Err() != nil:
				return nil
			case !ok:
				return errWatchEnded
			case entry == nil:
				ready()
			default:
				if r, ok := decodeEntry(entry.Key(), entry.Revision(), entry.Created(), entry.Value()); ok && r.Damaged == nil {
					f(r)
				}
			}
		}
	}
}

// CountStart adds n to the recorded starts of a call: 1 when a worker starts it, -1 if that
// start does not count as an attempt.
func CountStart(ctx context.Context, b *bus.Bus, k tools.CallKey, n int) error {
	_, err := ChangeRecord(ctx, b, k, func(r *Record) error {
		r.Starts = max(r.Starts+n, 0)
		return nil
	})
	return err
}

// TakeAhead records that a worker starts the call with a message before the consumer of the
// queue delivers it. It reports false if a worker did that before.
func TakeAhead(ctx context.Context, b *bus.Bus, k tools.CallKey, sequence uint64) (taken bool, err error) {
	first := Record{key: k, Ahead: sequence, ttl: aheadTTL} // most calls have none, and a user waits
	if err := first.store(ctx, b); !errors.Is(err, bus.ErrConflict) {
		return err == nil, err
	}
	_, err = ChangeRecord(ctx, b, k, func(r *Record) error {
		if taken = r.Ahead != sequence; !taken {
			return ErrUnchanged
		}
		if r.Ahead = sequence; r.revision == 0 {
			r.ttl = aheadTTL
		}
		return nil
	})
	return taken && err == nil, err
}

// RecordStopped records that the stop of a worker ended the first delivery of a call,
// which has no recorded start and does not count as an attempt.
func RecordStopped(ctx context.Context, b *bus.Bus, k tools.CallKey) error {
	_, err := ChangeRecord(ctx, b, k, func(r *Record) error {
		r.Stopped = true
		return nil
	})
	return err
}

// StoreRetry lets the attempts of a call begin again, because somebody retries the dead letter of its message with a sequence.
func StoreRetry(ctx context.Context, b *bus.Bus, k tools.CallKey, sequence uint64) error {
	_, err := ChangeRecord(ctx, b, k, func(r *Record) error {
		r.Starts, r.Stopped, r.Retried = 0, false, max(r.Retried, sequence)
		return nil
	})
	return err
}

// StoreStop stores which calls the message of a user stops, unless that is stored already,
// and returns the stored ones. k names the message by the tokens of its session and its id.
func StoreStop(ctx context.Context, b *bus.Bus, k tools.CallKey, calls []string) ([]string, error) {
	r, err := ChangeRecord(ctx, b, k, func(r *Record) error {
		if r.Stops != nil {
			return ErrUnchanged
		}
		r.Stops = append([]string{}, calls...)
		return nil
	})
	return r.Stops, err
}
