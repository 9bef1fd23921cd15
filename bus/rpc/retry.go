package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/bus/dead"
	"github.com/stevedore-bus/stevedore/bus/task"
	"github.com/stevedore-bus/stevedore/tools"
)

// ListDead lists dead letters. No worker offers it.
var ListDead = Define("listDead", "", "List dead letters.", OnBus(dead.ListPage))

// lettersTogether is how many letters take each step together. If the process dies, as many
// stay although their messages were published again.
const lettersTogether = 500

// groupInterval is the shortest time between two groups of retried letters. Their calls run at
// once, and the other calls of the queue keep about half of the workers of a small machine.
const groupInterval = 500 * time.Millisecond

// ChangeLetters removes dead letters, or retries them: it publishes their messages again before
// it removes them. First it removes the result that the worker published for the letter of a
// call, and the claim of a once-only call that the worker gave up on: otherwise the call would
// end with that result. The attempts of the call start again. A letter whose call has any other
// result is an error and stays.
//
// ChangeLetters calls done for each letter. An error does not stop the others. Many are prepared
// before they are published: the server syncs each removed result, and the results of calls that
// run meanwhile wait behind it.
func ChangeLetters(ctx context.Context, b *bus.Bus, letters []dead.Stored, retry bool, done func(dead.Stored, error)) {
	type step struct {
		do     func(context.Context, *bus.Bus, dead.Stored) error
		atOnce int
	}
	var steps []step
	if retry {
		steps = append(steps, step{prepareRetry, bus.DeletesAtOnce}, step{dead.Republish, dead.PublishesAtOnce})
	}
	next := time.Now()
	for group := range slices.Chunk(letters, lettersTogether) {
		if retry {
			_ = tools.Sleep(ctx, time.Until(next)) // the steps report that ctx has ended
			next = time.Now().Add(groupInterval)
		}
		for _, step := range steps {
			var succeeded []dead.Stored
			dead.Each(group, step.atOnce, func(letter dead.Stored) error {
				return step.do(ctx, b, letter)
			}, func(letter dead.Stored, err error) {
				if err != nil {
					done(letter, err)
					return
				}
				succeeded = append(succeeded, letter)
			})
			group = succeeded
		}
		dead.RemoveAll(ctx, b, group, done)
	}
}

// prepareRetry is the first step of a retry: it removes what would end the call at once.
func prepareRetry(ctx context.Context, b *bus.Bus, letter dead.Stored) error {
	err := dead.CheckRetriable(b.Subjects, letter)
	if err == nil && letter.Kind == bus.DeadCall && letter.Code != tools.CodeMismatch {
		err = removeResult(ctx, b, letter)
	}
	if err != nil {
		return fmt.Errorf("retry dead letter %d: %w", letter.Number, err)
	}
	return nil
}

// removeResult removes the result, the claim and the starts of a dead letter's call. A crash after it keeps
// the letter, which can be retried.
func removeResult(ctx context.Context, b *bus.Bus, letter dead.Stored) error {
	body, err := letter.Message(ctx, b)
	if err != nil {
		return err
	}
	if _, err := tools.DecodeCall(body); err != nil { // works for raw results too
		return nil // it has no result
	}
	subject, _ := b.SplitCall(letter.Subject)
	session, id := subject.Session, subject.ID
	stored, err := task.ReadResults(ctx, b, session, id)
	if err != nil {
		return err
	}
	if task.Ended(stored) {
		last := stored[len(stored)-1]
		switch {
		case last.Outcome == tools.Unknown:
			return errors.New("the tool is once-only and may have run; check the effects, then submit the call with another id")
		case last.Error == nil || last.Error.Code != tools.CodeGivenUp:
			return fmt.Errorf("the call has another result (%s); remove the dead letter", last.Outcome)
		case last.Error.CallSequence > letter.Sequence: // the server may still know the key of the message of this letter
			return errors.New("the call was retried and failed again; retry its later dead letter, and remove this one")
		}
		if err := b.Delete(ctx, bus.Results, last.Sequence); err != nil {
			return fmt.Errorf("remove the result of call %q in session %q: %w", id, session, err)
		}
	}
	claim, sequence, err := task.ReadClaim(ctx, b, session, id)
	if _, forged := errors.AsType[*task.ForgedError](err); forged || err == nil && claim.GivenUp {
		err = b.Delete(ctx, bus.Results, sequence)
	}
	if err != nil {
		return fmt.Errorf("remove the claim of call %q in session %q: %w", id, session, err)
	}
	return task.StoreRetry(ctx, b, tools.CallKey{Session: session, ID: id}, letter.Sequence)
}
