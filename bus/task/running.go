package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

const (
	// AskTimeout is how long a worker may take to report what it runs.
	AskTimeout = 2 * time.Second
	// lateAnswers is how long ListRunning waits for workers that run calls which
	// the caller does not expect: calls whose message has expired.
	lateAnswers = 50 * time.Millisecond
)

// AllSessions stands for the session in a request for the running calls of all
// sessions. It is not a token, so it is the name of no session.
const AllSessions = "-"

// RunningCall is a call that a worker runs.
type RunningCall struct {
	// Session is a token. Only the answer to AllRunning has it.
	Session string `json:"session,omitempty"`
	// ID is the token of the call's id.
	ID        string         `json:"id"`
	Tool      string         `json:"tool"`
	Args      string         `json:"args_excerpt,omitempty"` // their start
	Worker    string         `json:"worker"`
	StartedAt time.Time      `json:"started_at"`
	Progress  tools.Progress `json:"progress,omitzero"`
}

// FindRunning asks all workers for a call. Only the worker that runs it answers;
// ok is false if none does within timeout.
func FindRunning(ctx context.Context, b *bus.Bus, session, call string, timeout time.Duration) (r RunningCall, ok bool, err error) {
	answer, ok, err := requestAny(ctx, b, b.RPC("running", session, call), nil, timeout)
	if !ok || err != nil {
		return RunningCall{}, false, err
	}
	var calls []RunningCall
	if err := json.Unmarshal(answer, &calls); err != nil || len(calls) == 0 {
		return RunningCall{ID: call}, true, nil // any answer means that the call runs
	}
	return calls[0], true, nil
}

// ListRunning asks all workers which calls of a session they run and returns the
// calls by their tokens. A worker that runs none does not answer. ListRunning
// returns shortly after complete reports that the caller misses no call, and
// otherwise after AskTimeout.
func ListRunning(ctx context.Context, b *bus.Bus, session string, complete func(map[string]RunningCall) bool) (map[string]RunningCall, error) {
	found := map[string]RunningCall{}
	deadline, late := time.Now().Add(AskTimeout), false
	remaining := func() time.Duration {
		if !late && complete(found) {
			late = true
			deadline = time.Now().Add(lateAnswers)
		}
		return time.Until(deadline)
	}
	err := CollectReplies(ctx, b.Conn(), b.RPC("running", session), nil, remaining(), func(body []byte) time.Duration {
		var calls []RunningCall
		if json.Unmarshal(body, &calls) == nil { // otherwise it is not from a worker
			for _, c := range calls {
				found[c.ID] = c
			}
		}
		return remaining()
	})
	if errors.Is(err, ErrSilent) { // all workers run none of the calls
		err = nil
	}
	return found, err
}

const (
	// FirstAnswer is how long the first of all workers may take to answer a request to all of them. A process of a
	// busy machine may stand still for a second. If none listens, the server says so at once.
	FirstAnswer = 3 * time.Second
	// nextAnswer is how long each further worker may take.
	nextAnswer = 300 * time.Millisecond
)

// ErrSilent is the error of a request that all workers must answer, if none of them did: what they would have said is not
// known. The server says at once if no program listens.
var ErrSilent = errors.New("no worker answered in time, although a program listens to the request: the machine of the workers " +
	"is overloaded, or no worker is running and the program only watches the bus")

// AllRunning asks all workers for the calls of all sessions that they run. It is for
// operators: who may ask for it sees all sessions. A worker reports maxReported calls at
// most, the newest ones.
func AllRunning(ctx context.Context, b *bus.Bus) ([]RunningCall, error) {
	found, err := Collect[[]RunningCall](ctx, b.Conn(), b.RPC("running", AllSessions), nil, FirstAnswer)
	return append([]RunningCall{}, slices.Concat(found...)...), err
}

// Collect sends a request to all workers and returns their answers. The first of them may take some time.
func Collect[T any](ctx context.Context, nc *nats.Conn, subject string, body []byte, first time.Duration) (found []T, err error) {
	timeout := first
	err = CollectReplies(ctx, nc, subject, body, timeout, func(body []byte) time.Duration {
		var answer T
		if json.Unmarshal(body, &answer) == nil { // otherwise it is not from a worker
			found, timeout = append(found, answer), nextAnswer
		}
		return timeout
	})
	return found, err
}

// maxReported is the most calls in the answer of a worker to AllRunning.
const maxReported = 500

// AnswerRunning answers FindRunning, ListRunning and AllRunning for a worker until stop is
// called. running returns the worker's calls of a session, or only the given call
// if it is not empty. There is no answer if the worker runs none of them, except for
// AllRunning.
func AnswerRunning(b *bus.Bus, log zerolog.Logger, running func(session, call string) []RunningCall) (stop func(), err error) {
	return AnswerAll(b, log, b.RPC("running", ">"), func(msg *nats.Msg) any {
		tokens := append(b.Split(msg.Subject), "") // "rpc", "running", session and perhaps call
		calls := running(tokens[2], tokens[3])
		switch {
		case tokens[2] == AllSessions:
			return newest(calls)
		case len(calls) == 0:
			return nil
		}
		return calls
	})
}

// AnswerAll answers the requests on a subject that go to all workers, until stop is called.
// answer returns nil if this worker does not answer.
func AnswerAll(b *bus.Bus, log zerolog.Logger, subject string, answer func(*nats.Msg) any) (stop func(), err error) {
	sub, err := b.Conn().Subscribe(subject, func(msg *nats.Msg) {
		if !b.IsInbox(msg.Reply) {
			return
		}
		v := answer(msg)
		if v == nil {
			return
		}
		body, err := bus.Encode(v)
		if err == nil {
			err = msg.Respond(body)
		}
		if err != nil {
			log.Warn().Err(err).Str("subject", subject).Msg("cannot answer a request") // clients ask again
		}
	})
	if err != nil {
		return nil, fmt.Errorf("answer requests on %q: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is closed
}

// newest returns at most maxReported calls, with short texts, so that they fit into a
// message.
func newest(calls []RunningCall) []RunningCall {
	sort.Slice(calls, func(i, j int) bool { return calls[i].StartedAt.After(calls[j].StartedAt) })
	calls = append([]RunningCall{}, calls[:min(maxReported, len(calls))]...)
	for i := range calls {
		calls[i].Progress.Message = tools.Excerpt(calls[i].Progress.Message, 200)
	}
	return calls
}

// CollectReplies sends a request that any number of workers may answer, and calls
// reply for each answer. The number of answers is unknown: it returns when no answer
// arrives within timeout, which each reply sets for the next one. If the first answer took
// long, because the machine or the network is slow, the next ones may take three times as long. If there is no answer at
// all although a program listens, the error is ErrSilent.
func CollectReplies(ctx context.Context, nc *nats.Conn, subject string, body []byte, timeout time.Duration,
	reply func(body []byte) (timeout time.Duration)) error {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("request %q: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	if err := nc.PublishRequest(subject, inbox, body); err != nil {
		return fmt.Errorf("request %q: %w", subject, err)
	}
	asked, slow := time.Now(), time.Duration(-1)
	for {
		waitCtx, cancel := context.WithTimeout(ctx, timeout)
		msg, err := sub.NextMsgWithContext(waitCtx)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case slow < 0 && noAnswer(err) && !errors.Is(err, nats.ErrNoResponders):
			return ErrSilent
		case noAnswer(err):
			return nil
		case err != nil:
			return fmt.Errorf("request %q: %w", subject, err)
		}
		if slow < 0 {
			slow = min(3*time.Since(asked), FirstAnswer)
		}
		if timeout = reply(msg.Data); timeout > 0 {
			timeout = max(timeout, slow)
		}
	}
}

// requestAny sends a request that any number of workers may answer, and returns
// the first answer; ok is false if there is none within timeout.
func requestAny(ctx context.Context, b *bus.Bus, subject string, body []byte, timeout time.Duration) (answer []byte, ok bool, err error) {
	waitCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	msg, err := b.Conn().RequestWithContext(waitCtx, subject, body)
	switch {
	case err == nil:
		return msg.Data, true, nil
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case noAnswer(err):
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("request %q: %w", subject, err)
}

// IsOffered reports whether a worker that a query matches answers within timeout.
func IsOffered(ctx context.Context, b *bus.Bus, q tools.OfferQuery, timeout time.Duration) (bool, error) {
	q.Brief = true
	query, err := bus.Encode(q)
	if err != nil {
		return false, err
	}
	_, ok, err := requestAny(ctx, b, b.RPC("offer"), query, timeout)
	return ok, err
}

func noAnswer(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}
