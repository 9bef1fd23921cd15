package jsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// API sends requests to the JetStream API of one account. It is safe for
// concurrent use.
type API struct {
	nc      *nats.Conn
	prefix  string // ends in a dot
	timeout time.Duration
}

// New returns the API of the connection, domain or prefix, and default timeout that
// js uses.
func New(js jetstream.JetStream) API {
	o := js.Options()
	a := API{nc: js.Conn(), prefix: jetstream.DefaultAPIPrefix, timeout: o.DefaultTimeout}
	switch {
	case o.Domain != "":
		a.prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		a.prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return a
}

// Subject returns the subject of an API request, such as STREAM.INFO.<name>.
func (a API) Subject(request string) string { return a.prefix + request }

// PutSubject returns the subject on which a client publishes what the stream of a key-value
// bucket stores on subject. A server lets no message on $KV.> pass to another JetStream domain.
func (a API) PutSubject(subject string) string {
	if a.prefix == jetstream.DefaultAPIPrefix {
		return subject
	}
	return a.prefix + subject // the server of the domain removes the prefix
}

// Get selects one message of a stream: by sequence, the last one on a subject, or
// the next one on a subject (which may have wildcards) from a sequence or time on.
// With Batch it selects up to so many messages, with MaxBytes up to so many bytes.
type Get struct {
	Sequence      uint64    `json:"seq,omitempty"`
	LastBySubject string    `json:"last_by_subj,omitempty"`
	NextBySubject string    `json:"next_by_subj,omitempty"`
	StartTime     time.Time `json:"start_time,omitzero"`
	Batch         int       `json:"batch,omitempty"`
	MaxBytes      int       `json:"max_bytes,omitempty"`
}

// Message is a message as the stream stores it.
type Message struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	Header   nats.Header
	Data     []byte
}

// GetMessage returns one message, or ErrMsgNotFound. It asks any replica first. A
// replica that does not have the message may lag behind, so it then asks the leader.
func (a API) GetMessage(ctx context.Context, stream string, get Get) (Message, error) {
	m, err := a.GetFromAny(ctx, stream, get)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return a.GetFromLeader(ctx, stream, get)
	}
	return m, err
}

// GetFromAny returns one message from any replica, or ErrMsgNotFound. If no replica answers, because
// the stream is new or allows no direct gets, it asks the leader.
func (a API) GetFromAny(ctx context.Context, stream string, get Get) (Message, error) {
	reply, err := a.request(ctx, "DIRECT.GET."+stream, get)
	if errors.Is(err, nats.ErrNoResponders) {
		short, cancel := context.WithTimeout(ctx, leaderTimeout)
		defer cancel()
		if m, failed := a.GetFromLeader(short, stream, get); failed == nil || errors.Is(failed, jetstream.ErrMsgNotFound) {
			return m, failed
		}
	}
	if err != nil {
		return Message{}, err
	}
	return parseMessage(reply)
}

// leaderTimeout is how long a leader may take if no replica answers: a stream whose only server is down has none.
const leaderTimeout = time.Second

// NoneStored reports whether a replica certainly has no message on any of the subjects, at most
// 1,024.
func (a API) NoneStored(ctx context.Context, stream string, subjects []string) bool {
	reply, err := a.request(ctx, "DIRECT.GET."+stream, struct {
		LastBySubject []string `json:"multi_last"`
		Batch         int      `json:"batch"` // the first message says enough
	}{subjects, 1})
	if err != nil {
		return false
	}
	_, err = parseMessage(reply)
	return errors.Is(err, jetstream.ErrMsgNotFound) && reply.Header.Get("Description") == noResults
}

// noResults is the description of a status 404 if no message matches. There is another one if the
// server cannot load a message that does.
const noResults = "No Results"

// GetFromLeader returns one message from the leader of the stream, or
// ErrMsgNotFound.
func (a API) GetFromLeader(ctx context.Context, stream string, get Get) (Message, error) {
	reply, err := a.request(ctx, "STREAM.MSG.GET."+stream, get)
	if err != nil {
		return Message{}, err
	}
	var got struct {
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	switch err := apiError(reply.Data, &got); {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return Message{}, jetstream.ErrMsgNotFound
	case err != nil:
		return Message{}, err
	case got.Message == nil:
		return Message{}, errors.New("get message: the reply has no message")
	}
	m := Message{Subject: got.Message.Subject, Sequence: got.Message.Sequence, Time: got.Message.Time, Data: got.Message.Data}
	if len(got.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(got.Message.Header); err != nil {
			return Message{}, fmt.Errorf("get message: %w", err)
		}
	}
	return m, nil
}

func (a API) request(ctx context.Context, request string, body any) (*nats.Msg, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	reply, err := a.nc.RequestWithContext(ctx, a.prefix+request, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, errNoAnswer
	}
	return reply, err
}

var errNoAnswer = fmt.Errorf("get message: %w; does the stream exist, and does it allow direct gets?", nats.ErrNoResponders)

// errEndOfBatch means that the server has sent all messages of a batch.
var errEndOfBatch = errors.New("end of batch")

// parseMessage decodes the reply to a direct get: a message, errEndOfBatch, or
// ErrMsgNotFound.
func parseMessage(reply *nats.Msg) (Message, error) {
	h := reply.Header
	if lastValue(h, jetstream.StreamHeader) == "" { // not a message but a status
		switch status := h.Get("Status"); status {
		case "204":
			return Message{}, errEndOfBatch
		case "404":
			return Message{}, jetstream.ErrMsgNotFound
		case "503":
			return Message{}, errNoAnswer
		default:
			return Message{}, fmt.Errorf("get message: %s %s", status, h.Get("Description"))
		}
	}
	m := Message{Subject: lastValue(h, jetstream.SubjectHeader), Header: h, Data: reply.Data}
	var errSequence, errTime error
	m.Sequence, errSequence = strconv.ParseUint(lastValue(h, jetstream.SequenceHeader), 10, 64)
	m.Time, errTime = time.Parse(time.RFC3339Nano, lastValue(h, jetstream.TimeStampHeaer))
	if err := errors.Join(errSequence, errTime); err != nil {
		return Message{}, fmt.Errorf("get message: %w", err)
	}
	return m, nil
}

// lastValue returns the value that the server wrote. The server appends its headers
// to those of the publisher, who may have used the same names.
func lastValue(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// The server has two errors for a message that is gone (errors.json: JSSequenceNotFoundErrF,
// JSStreamMsgDeleteFailedF). The second one is also for other faults, and its text tells.
// The error of jetstream.Stream.DeleteMsg has neither.
const (
	errSequenceNotFound = 10043
	errDeleteFailed     = 10057
	noMessageFound      = "no message found"
)

// DeleteMessage deletes a message of a stream, if it still exists. The server does not
// overwrite its bytes, because it would write the whole block of messages again.
func (a API) DeleteMessage(ctx context.Context, stream string, sequence uint64) error {
	reply, err := a.request(ctx, "STREAM.MSG.DELETE."+stream, struct {
		Sequence uint64 `json:"seq"`
		NoErase  bool   `json:"no_erase"`
	}{sequence, true})
	if err != nil {
		return err
	}
	var answer struct{ Success bool }
	err = apiError(reply.Data, &answer)
	api, refused := errors.AsType[*jetstream.APIError](err)
	switch {
	case refused && (api.ErrorCode == errSequenceNotFound || api.ErrorCode == errDeleteFailed && api.Description == noMessageFound):
		return nil
	case err == nil && !answer.Success:
		return fmt.Errorf("delete message %d: the server did not delete it", sequence)
	}
	return err
}
