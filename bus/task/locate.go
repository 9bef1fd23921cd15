package task

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Where says where a delivered call is.
type Where int

const (
	IsFresh   Where = iota // delivered for the first time: a worker may start it
	IsResumed              // delivered before: a worker may start it again
	IsParked               // its record replaces this delivery
	HasEnded               // its final result is stored, or waits in a raw result
	IsRunning              // a worker runs it, or may run it and is not connected yet
	IsClaimed              // a once-only call was started, and no worker reports that it runs it
)

// Place is where a delivered call is, with what is known of it there.
type Place struct {
	Where  Where
	Parked Parked         // if it is parked
	Stored []StoredResult // its events, as far as they were read
	// Here is closed when the run of a call that runs in this worker ends; nil if another one runs
	// it, as By says. By is empty if no worker has answered.
	Here <-chan struct{}
	By   RunningCall
	// Claim is that of a claimed call; empty if the stream may have dropped it. Died is set if the
	// worker that started the call has certainly died.
	Claim Claim
	Died  bool
}

// Locator finds out where the calls are that a worker gets.
type Locator struct {
	Bus     *bus.Bus
	Records *Follower
	Results *Results
	// Here returns a channel that is closed when a call that this worker runs ends; nil if it does
	// not run the call.
	Here func(tools.CallKey) <-chan struct{}
	// CompleteSince returns since when the results stream has dropped no message.
	CompleteSince func(context.Context) (time.Time, error)
	// AskTimeout is how long another worker may take to say that it runs a call.
	AskTimeout time.Duration

	// Process names this process in claims. OwnServer is set if the server runs in it. The server
	// and the worker then end together: a call that was stored before AloneAt, when no other worker
	// used the server, can only have run in a process that has died, unless OthersCame since.
	Process    string
	OwnServer  bool
	AloneAt    time.Time
	OthersCame func(context.Context) (bool, error)
	// OthersBackBy is when workers that lost their server are connected again. Until then, one that
	// does not answer may still run a call.
	OthersBackBy time.Time
}

// Locate finds out where a delivered call is. It asks only what may be so: a message that nobody
// can have handled before is fresh without a request. contested is set if this worker could not
// begin the call, so that another delivery of it is running or has ended.
func (l *Locator) Locate(ctx context.Context, d *Delivered, contested bool) (p Place, err error) {
	known := l.Records.IsCurrent()
	parked, wasAhead := l.Records.Find(d.Key, d.Sequence)
	if !known {
		r, err := l.record(ctx, d.Key)
		if err != nil {
			return p, err
		}
		if parked, wasAhead = (Parked{}), r.Ahead == d.Sequence; r.Parked != nil {
			parked = *r.Parked
		}
		if !r.Cancelled.IsZero() {
			l.Records.cfg.Cancelled(d.Key)
		}
	}
	if d.Raw == nil && d.Resumed.Number < parked.Number {
		r, err := ReadRecord(ctx, l.Bus, d.Key)
		if err != nil {
			return p, err
		}
		retried := r.Parked == nil && r.Retried > 0 && r.Retried < d.Sequence
		if r.Parks >= parked.Number && !retried {
			return Place{Where: IsParked, Parked: parked}, d.Check(parked.Digest)
		}
		d.Redelivered = true // somebody has removed its record, or retried its dead letter, so this message is the call
	}
	if !d.Ahead && wasAhead {
		d.Redelivered = true
	}
	if d.Redelivered {
		p.Where = IsResumed
	} else if !contested && !d.Republished && d.Header(bus.FreshHeader) != "" {
		return p, nil
	}
	if contested || d.Redelivered {
		if held, err := l.isHeld(ctx, d); held || err != nil { // before its result is read, which replaces it
			return Place{Where: HasEnded}, err
		}
	}
	var ended bool
	if p.Stored, ended, err = l.Stored(ctx, d); ended || err != nil {
		p.Where = HasEnded
		return p, err
	}
	// No worker runs a call that was settled, and a claim shows who runs a once-only one.
	settled := d.Republished || d.Once() || len(p.Stored) == 0
	if !contested && !d.Redelivered && settled {
		return p, nil
	}
	return p, l.holder(ctx, d, &p)
}

// Stored returns the stored events of a call, and whether they include the final one.
func (l *Locator) Stored(ctx context.Context, d *Delivered) (stored []StoredResult, ended bool, err error) {
	stored, err = l.Results.Read(ctx, d.Key)
	if n := len(stored); n > 0 && err == nil {
		var dropped bool
		if dropped, err = l.DropRetried(ctx, d.Key, stored[n-1]); dropped {
			stored = stored[:n-1]
		}
	}
	if len(stored) == 0 || err != nil {
		return nil, false, err
	}
	return stored, Ended(stored) || d.CompletesElsewhere(), d.Check(stored[0].Digest)
}

// DropRetried removes the result of a worker that gave up on a message of the call, if somebody has retried the dead
// letter of that message since: the result arrived late.
func (l *Locator) DropRetried(ctx context.Context, k tools.CallKey, r StoredResult) (dropped bool, err error) {
	if r.Error == nil {
		return false, nil
	}
	return l.dropRetried(ctx, k, r.Sequence, r.Error.CallSequence)
}

// dropRetried is DropRetried for the sequence of a result or claim, and for that of the message that its worker gave up on;
// 0 if it did not.
func (l *Locator) dropRetried(ctx context.Context, k tools.CallKey, sequence, givenUp uint64) (dropped bool, err error) {
	if givenUp == 0 {
		return false, nil
	}
	err = l.Results.read(ctx, func() error {
		r, err := ReadRecord(ctx, l.Bus, k)
		if dropped = err == nil && givenUp <= r.Retried; dropped {
			err = l.Bus.Delete(ctx, bus.Results, sequence)
		}
		return err
	})
	return dropped && err == nil, err
}

// Claim stores the claim of a call. It returns the stored one and whether it is this one: the first claim wins, unless it
// is that of a worker that gave up on a message which somebody has retried since.
func (l *Locator) Claim(ctx context.Context, k tools.CallKey, claim Claim) (stored Claim, won bool, err error) {
	for dropped := true; dropped && err == nil; {
		var sequence uint64
		if stored, sequence, won, err = l.Results.claim(ctx, k, claim); won || err != nil {
			break
		}
		dropped, err = l.dropRetried(ctx, k, sequence, stored.CallSequence)
	}
	return stored, won, err
}

// holder finds out which worker has a call without a final result.
func (l *Locator) holder(ctx context.Context, d *Delivered, p *Place) error {
	if p.Here = l.Here(d.Key); p.Here != nil {
		p.Where = IsRunning
		return nil
	}
	started, err := l.onceStarted(ctx, d, p)
	if err != nil {
		return err
	}
	running := false
	if started || !d.Once() { // otherwise no worker runs it: it would have claimed it before
		if p.Died, err = l.holderDied(ctx, d, p.Claim); err != nil {
			return err
		}
		if !p.Died {
			if p.By, running, err = FindRunning(ctx, l.Bus, d.Key.Session, d.Key.ID, l.AskTimeout); err != nil {
				return err
			}
		}
	}
	switch {
	case running, !started && time.Now().Before(l.OthersBackBy):
		p.Where = IsRunning
	case started:
		p.Where = IsClaimed
	default:
		err = l.lookAgain(ctx, d, p)
	}
	return err
}

// record reads the record of a call. A damaged one is empty, and so is each one if somebody has deleted the bucket.
func (l *Locator) record(ctx context.Context, k tools.CallKey) (r Record, err error) {
	err = l.Results.read(ctx, func() error {
		m, err := l.Bus.Entry(ctx, keyOf(k))
		if err == nil {
			r, _ = decodeEntry(keyOf(k), m.Sequence, m.Time, m.Data)
		} else if errors.Is(err, jetstream.ErrStreamNotFound) {
			err = nil
		}
		return err
	})
	return r, err
}

// lookAgain looks for a call that no worker runs where a worker may have put it while this one asked.
func (l *Locator) lookAgain(ctx context.Context, d *Delivered, p *Place) error {
	r, err := l.record(ctx, d.Key)
	if err != nil {
		return err
	}
	if d.Raw == nil && r.Parked != nil && d.Resumed.Number < r.Parks {
		*p = Place{Where: IsParked, Parked: *r.Parked}
		return d.Check(r.Parked.Digest)
	}
	ended, err := l.isHeld(ctx, d)
	if err == nil && !ended {
		p.Stored, ended, err = l.Stored(ctx, d)
	}
	if ended {
		p.Where = HasEnded
	}
	return err
}

// onceStarted reports whether the call is once-only and was started, so that it must not run
// again. It assumes so if the stream may have dropped the claim.
func (l *Locator) onceStarted(ctx context.Context, d *Delivered, p *Place) (started bool, err error) {
	if !d.Once() {
		return false, nil
	}
	var sequence uint64
	if p.Claim, sequence, err = l.Results.readClaim(ctx, d.Key); err != nil {
		return false, err
	}
	if dropped, err := l.dropRetried(ctx, d.Key, sequence, p.Claim.CallSequence); dropped || err != nil {
		p.Claim = Claim{}
		return false, err
	}
	if sequence > 0 {
		return true, d.Check(p.Claim.Digest)
	}
	var since time.Time
	err = l.Results.read(ctx, func() (err error) {
		since, err = l.CompleteSince(ctx)
		return err
	})
	return d.Published.Before(since), err
}

// holderDied reports whether it is certain that no process runs the call any more, without
// asking the workers. claim is that of a once-only call; it may be empty.
func (l *Locator) holderDied(ctx context.Context, d *Delivered, claim Claim) (died bool, err error) {
	switch {
	case !l.OwnServer:
		return false, nil
	case claim != (Claim{}):
		return claim.OwnServer && claim.Process != "" && claim.Process != l.Process, nil
	case !d.Published.Before(l.AloneAt):
		return false, nil
	}
	err = l.Results.read(ctx, func() error {
		others, err := l.OthersCame(ctx)
		died = err == nil && !others
		return err
	})
	return died, err
}
