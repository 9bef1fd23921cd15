package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stevedore-bus/stevedore/bus"
	"github.com/stevedore-bus/stevedore/tools"
)

// Kinds of stored events.
const (
	ResultKind     = "result"
	CompletionKind = "completion"
)

// These header values are the same for all events, so events share them.
var (
	ceVersion = []string{"1.0"}
	ceContent = []string{"application/json"}
	ceTypes   = map[string][]string{ResultKind: {"stevedore.result"}, CompletionKind: {"stevedore.completion"}}
)

// EventMessage returns the message of a result or a completion, with the required attributes of
// CloudEvents 1.0 in its NATS binding; the message itself has the time and the subject.
func EventMessage(b *bus.Bus, kind string, k tools.CallKey, event tools.ResultEvent, source []string) (m bus.Message, err error) {
	m.Subject = b.Result(k.Session, k.ID)
	if kind == CompletionKind {
		m.Subject = b.Completion(k.Session, k.ID)
	}
	m.Header = nats.Header{
		"ce-specversion": ceVersion,
		"ce-type":        ceTypes[kind],
		"ce-source":      source,
		"ce-id":          {kind + "." + k.Session + "." + k.ID},
		"content-type":   ceContent,
	}
	m.Body, err = bus.Encode(event)
	return m, err
}

// ErrUnreadable means that the message on the subject of a result is not a result of its
// call.
var ErrUnreadable = errors.New("the message is not a result of its call")

// ForgedError is the ErrUnreadable of a stored message. No worker publishes such a message,
// but a client of the account can.
type ForgedError struct {
	Subject  string
	Sequence uint64
	reason   error
}

func (e *ForgedError) Error() string { return e.reason.Error() }

// Unwrap returns the reason, which is ErrUnreadable.
func (e *ForgedError) Unwrap() error { return e.reason }

// StoredResult is a result or a completion with its body and its sequence in the stream.
type StoredResult struct {
	tools.ResultEvent
	Body     []byte
	Sequence uint64
}

// ReadResult reads the result or completion that is stored on a subject; ok is false if
// there is none. A forged message counts as none: a worker that runs the call replaces it.
func ReadResult(ctx context.Context, b *bus.Bus, subject string) (r StoredResult, ok bool, err error) {
	r, ok, err = readStored(ctx, b, subject)
	if _, forged := errors.AsType[*ForgedError](err); forged {
		return StoredResult{}, false, nil
	}
	return r, ok, err
}

// readStored is like ReadResult, but returns a *ForgedError for a forged message.
func readStored(ctx context.Context, b *bus.Bus, subject string) (r StoredResult, ok bool, err error) {
	m, err := b.Last(ctx, bus.Results, subject)
	if m.Sequence == 0 || err != nil {
		return StoredResult{}, false, err
	}
	event, err := DecodeResult(b, subject, m.Body)
	if err != nil {
		return StoredResult{}, false, &ForgedError{subject, m.Sequence, err}
	}
	return StoredResult{event, m.Body, m.Sequence}, true, nil
}

// DecodeResult decodes the result or completion that is stored on a subject. A client can
// make the server send an acknowledgement or another answer to any subject, so
// DecodeResult returns ErrUnreadable unless the event has an outcome and names the call
// of the subject.
func DecodeResult(b *bus.Bus, subject string, body []byte) (tools.ResultEvent, error) {
	event, err := tools.DecodeResult(body)
	if err != nil {
		return event, fmt.Errorf("%q: %w: %w", subject, ErrUnreadable, err)
	}
	tokens := b.Split(subject)
	switch {
	case len(tokens) != 3:
		err = errors.New("the subject names no call")
	case !event.Outcome.Valid():
		err = fmt.Errorf("its outcome is %.40q", event.Outcome)
	case !names(cmp.Or(event.Session, tools.DefaultSession), tokens[1]), !names(event.ID, tokens[2]):
		err = fmt.Errorf("it belongs to the call %.80q in session %.80q", event.ID, event.Session)
	}
	if err != nil {
		return tools.ResultEvent{}, fmt.Errorf("%q: %w: %w", subject, ErrUnreadable, err)
	}
	return event, nil
}

// names reports whether id has the token. An id that is too long is replaced by its token.
func names(id, token string) bool { return id == token || tools.Token(id) == token }

// ReadResults reads the stored events of a call: none, its result, or the result
// and the completion of an async call. The two tokens name the call.
func ReadResults(ctx context.Context, b *bus.Bus, session, call string) ([]StoredResult, error) {
	return readResults(ctx, b, session, call, ReadResult)
}

// readResults is ReadResults with a function that reads the event on a subject.
func readResults(ctx context.Context, b *bus.Bus, session, call string,
	read func(ctx context.Context, b *bus.Bus, subject string) (StoredResult, bool, error)) (events []StoredResult, err error) {
	for _, subject := range []string{b.Result(session, call), b.Completion(session, call)} {
		event, ok, err := read(ctx, b, subject)
		if err != nil {
			return events, err
		}
		if !ok {
			break
		}
		events = append(events, event)
		if event.Outcome != tools.Async {
			break
		}
	}
	return events, nil
}

// Ended reports whether the stored events of a call include its final one.
func Ended(events []StoredResult) bool {
	return len(events) == 2 || len(events) == 1 && events[0].Outcome != tools.Async
}

// Claim is the message on the claim subject of a once-only call. The first claim wins:
// only its owner may run the call.
type Claim struct {
	Worker string `json:"worker"`
	// Process identifies the process of the worker. OwnServer is set if the server runs in
	// that process, so that a later process of the server knows that the worker is dead.
	Process   string    `json:"process,omitempty"`
	OwnServer bool      `json:"own_server,omitempty"`
	Nonce     string    `json:"nonce"` // identifies the claim
	Digest    string    `json:"call_digest,omitempty"`
	At        time.Time `json:"at"`
	// GivenUp is set if the worker did not run the call but gave up on it. CallSequence is then that of its message in
	// the stream.
	GivenUp      bool   `json:"given_up,omitempty"`
	CallSequence uint64 `json:"call_sequence,omitempty"`
}

// ReadClaim returns the claim of a call and its sequence, which is 0 if there is none. For
// a message that no worker published, such as an acknowledgement that a client made the
// server send there, it returns a *ForgedError and the sequence.
func ReadClaim(ctx context.Context, b *bus.Bus, session, call string) (c Claim, sequence uint64, err error) {
	m, err := b.Last(ctx, bus.Results, b.Claim(session, call))
	if m.Sequence == 0 || err != nil {
		return Claim{}, 0, err
	}
	err = json.Unmarshal(m.Body, &c)
	if err == nil && (c.Nonce == "" || c.Worker == "") {
		err = errors.New("it names no worker and no nonce")
	}
	if err != nil {
		return Claim{}, m.Sequence, &ForgedError{b.Claim(session, call), m.Sequence, fmt.Errorf("the message is not a claim: %w: %w", ErrUnreadable, err)}
	}
	return c, m.Sequence, nil
}
