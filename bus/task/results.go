package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
	"github.com/stevedore-bus/stevedore/tools/retry"
	"github.com/stevedore-bus/stevedore/tools/tracing"
)

// Results reads and writes the results stream for a worker. Its methods wait while the bus is
// unreachable or full: an error would count as an attempt of a call that did nothing wrong, or
// run its tool again.
//
// The stream keeps the first message of each subject. A client of the worker's account can
// publish a message on the subject of a result, a completion or a claim before a worker does, or
// make the server publish an acknowledgement there. Such a message is not the outcome of the
// call, and must not block it: the worker removes it, and it counts as none.
type Results struct {
	bus       *bus.Bus
	log       zerolog.Logger
	failsFull bool // a full bus is an error at once
}

// NewResults returns the results of a bus.
func NewResults(b *bus.Bus, log zerolog.Logger) *Results { return &Results{bus: b, log: log} }

// Read returns the stored events of a call, as ReadResults does.
func (r *Results) Read(ctx context.Context, k tools.CallKey) (stored []StoredResult, err error) {
	err = r.read(ctx, func() (err error) {
		stored, err = readResults(ctx, r.bus, k.Session, k.ID, readStored)
		return err
	})
	return stored, err
}

// Publish publishes a result or a completion. If the subject already holds one, won is false, and
// first is the stored one.
func (r *Results) Publish(ctx context.Context, m bus.Message) (first StoredResult, won bool, err error) {
	won, err = r.publishFirst(ctx, m, func() (stored bool, err error) {
		first, stored, err = readStored(ctx, r.bus, m.Subject)
		return stored, err
	})
	return first, won, err
}

// claim stores the claim of a call. It returns the stored one, its sequence and whether it is this one: the
// first claim wins.
func (r *Results) claim(ctx context.Context, k tools.CallKey, claim Claim) (stored Claim, sequence uint64, won bool, err error) {
	claim.Nonce = nuid.Next() // it identifies our own claim if its acknowledgement was lost
	body, err := bus.Encode(claim)
	if err != nil {
		return Claim{}, 0, false, err
	}
	won, err = r.publishFirst(ctx, bus.Message{Subject: r.bus.Claim(k.Session, k.ID), Body: body}, func() (ok bool, err error) {
		stored, sequence, err = ReadClaim(ctx, r.bus, k.Session, k.ID)
		return stored.Nonce != "", err
	})
	if won {
		stored = claim
	}
	return stored, sequence, won || err == nil && stored.Nonce == claim.Nonce, err
}

// readClaim reads the claim of a call and its sequence, which is 0 if there is none.
func (r *Results) readClaim(ctx context.Context, k tools.CallKey) (claim Claim, sequence uint64, err error) {
	err = r.read(ctx, func() (err error) {
		if claim, sequence, err = ReadClaim(ctx, r.bus, k.Session, k.ID); err != nil {
			claim, sequence = Claim{}, 0 // read removes a forged one
		}
		return err
	})
	return claim, sequence, err
}

// maxForged is how often a worker publishes the same event or report again after it removed a
// message in its place.
const maxForged = 20

// publishFirst publishes the only event of a subject. won is false if the subject already
// holds one, which read reads. A rejecting message may have been forged, or may have expired.
func (r *Results) publishFirst(ctx context.Context, m bus.Message, read func() (stored bool, err error)) (won bool, err error) {
	for range maxForged {
		if err = r.publish(ctx, m); !errors.Is(err, bus.ErrSubjectExists) {
			return err == nil, err
		}
		stored := false
		if err := r.read(ctx, func() (err error) { stored, err = read(); return err }); stored || err != nil {
			return false, err
		}
	}
	return false, errors.New("the server rejected the event because of an earlier one, which does not exist")
}

// publish publishes, and repeats that while the bus is unreachable or full.
func (r *Results) publish(ctx context.Context, m bus.Message) error {
	m.Timeout, m.WaitIfFull = bus.NoTimeout, !r.failsFull
	_, err := r.bus.Publish(ctx, m)
	return err
}

// read reads, repeats that while the bus is unreachable, and removes a forged message that it finds.
func (r *Results) read(ctx context.Context, read func() error) error {
	return retry.Log(ctx, r.log, "cannot read results", 0, bus.IsClosed, func() error {
		err := read()
		forged, ok := errors.AsType[*ForgedError](err)
		if !ok {
			return err
		}
		if err := r.bus.Delete(ctx, bus.Results, forged.Sequence); err != nil {
			return fmt.Errorf("remove the forged message %d from %q: %w; this needs the permission to publish to "+
				"$JS.API.STREAM.MSG.DELETE.%s", forged.Sequence, forged.Subject, err, r.bus.StreamName(bus.Results))
		}
		r.log.Warn().Str("subject", forged.Subject).Uint64("sequence", forged.Sequence).Str("reason", tools.Excerpt(forged.Error(), 300)).
			Msg("removed a message that no worker published; a client of this account has published it or caused it")
		return nil
	})
}

// HasReport reports whether the notifier needs a copy of a result, its report, because it may have
// a text for a user. The notifier reads all completions, so these have no report.
func HasReport(e tools.ResultEvent) bool {
	return bus.IsScheduled(e.Action) && e.IsError || e.ForUser != "" && !e.Silent && e.Action != tools.ActionAgent
}

// Report stores the report of a stored result, if it has one: a copy that the notifier reads. A call
// may leave its queue only afterwards: if the process that stored the result dies before, the next
// worker of the call stores the report.
//
// A report is a copy of the result, so any other message in its place is removed: a client forged
// it, or it is of an earlier result of the call, which a retry removed or which has expired.
func (r *Results) Report(ctx context.Context, k tools.CallKey, stored StoredResult) error {
	if !HasReport(stored.ResultEvent) {
		return nil
	}
	b := r.bus
	m := bus.Message{Subject: b.Report(k.Session, k.ID), Body: stored.Body, Header: nats.Header{}}
	tracing.Add(ctx, m.Header)
	for range maxForged {
		if err := r.publish(ctx, m); !errors.Is(err, bus.ErrSubjectExists) {
			return err
		}
		have, err := b.Last(ctx, bus.Results, m.Subject)
		switch {
		case err == nil && have.Sequence == 0: // it has just expired
		case err == nil && bytes.Equal(have.Body, m.Body):
			return nil
		case err == nil:
			var result bus.Stored
			result, err = b.Last(ctx, bus.Results, b.Result(k.Session, k.ID))
			if err == nil && !bytes.Equal(result.Body, m.Body) {
				return nil // a retry has removed the result meanwhile, and the report is of the next one
			}
			if err == nil {
				err = b.Delete(ctx, bus.Results, have.Sequence)
			}
		}
		if err != nil {
			return fmt.Errorf("replace the message %d on %q: %w", have.Sequence, m.Subject, err)
		}
	}
	return fmt.Errorf("a client keeps publishing to %q", m.Subject)
}
