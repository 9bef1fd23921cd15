package object

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
	"github.com/stevedore-bus/stevedore/offload"
)

// api asks JetStream for single messages, in the two ways that there are: any
// replica answers directly, which is fast and may be behind; the leader knows.
type api struct {
	nc     *nats.Conn
	prefix string
	wait   time.Duration
}

func newAPI(js jetstream.JetStream) api {
	o := js.Options()
	a := api{nc: js.Conn(), prefix: jetstream.DefaultAPIPrefix, wait: o.DefaultTimeout}
	switch {
	case o.Domain != "":
		a.prefix = "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		a.prefix = strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return a
}

// msgRequest asks for one message or, with Batch, for several.
type msgRequest struct {
	Seq   uint64 `json:"seq,omitempty"`
	Last  string `json:"last_by_subj,omitempty"`
	Next  string `json:"next_by_subj,omitempty"`
	Batch int    `json:"batch,omitempty"`
}

// storedMsg is a message as a stream keeps it.
type storedMsg struct {
	subject string
	seq     uint64
	time    time.Time
	header  nats.Header
	data    []byte
}

// get returns a message, ErrMsgNotFound if there is none. A replica that does
// not know it may be behind, so then the leader is asked.
func (a api) get(ctx context.Context, stream string, req msgRequest) (storedMsg, error) {
	m, err := a.direct(ctx, stream, req)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return a.fromLeader(ctx, stream, req)
	}
	return m, err
}

func (a api) direct(ctx context.Context, stream string, req msgRequest) (storedMsg, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return storedMsg{}, err
	}
	m, err := a.nc.RequestWithContext(ctx, a.prefix+"DIRECT.GET."+stream, body)
	if err != nil {
		return storedMsg{}, a.explain(stream, err)
	}
	return parseDirect(m)
}

// ask sends a request whose answers come to sub.
func (a api) ask(sub *nats.Subscription, stream string, req msgRequest) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	return a.nc.PublishRequest(a.prefix+"DIRECT.GET."+stream, sub.Subject, body)
}

// within bounds a request that has no deadline.
func (a api) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.wait)
}

func (a api) explain(stream string, err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("the stream %q does not answer (is it there, is AllowDirect on?): %w", stream, err)
	}
	return err
}

// errEndOfBatch ends the answers to a request with Batch.
var errEndOfBatch = errors.New("end of batch")

// parseDirect reads the answer to a direct get. ErrMsgNotFound, errEndOfBatch.
func parseDirect(m *nats.Msg) (storedMsg, error) {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "204":
		return storedMsg{}, errEndOfBatch
	case "404":
		return storedMsg{}, jetstream.ErrMsgNotFound
	default:
		return storedMsg{}, fmt.Errorf("get message: %s %s", status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return storedMsg{}, errors.New("get message: the answer has no sequence")
	}
	at, _ := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	return storedMsg{subject: m.Header.Get(jetstream.SubjectHeader), seq: seq, time: at, header: m.Header, data: m.Data}, nil
}

func (a api) fromLeader(ctx context.Context, stream string, req msgRequest) (storedMsg, error) {
	ctx, cancel := a.within(ctx)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return storedMsg{}, err
	}
	m, err := a.nc.RequestWithContext(ctx, a.prefix+"STREAM.MSG.GET."+stream, body)
	if err != nil {
		return storedMsg{}, a.explain(stream, err)
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &resp); err != nil {
		return storedMsg{}, fmt.Errorf("get message: %w", err)
	}
	switch {
	case resp.Error != nil && resp.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return storedMsg{}, jetstream.ErrMsgNotFound
	case resp.Error != nil:
		return storedMsg{}, resp.Error
	case resp.Message == nil:
		return storedMsg{}, errors.New("get message: the answer has no message")
	}
	out := storedMsg{subject: resp.Message.Subject, seq: resp.Message.Seq, time: resp.Message.Time, data: resp.Message.Data}
	if len(resp.Message.Header) > 0 {
		if out.header, err = nats.DecodeHeadersMsg(resp.Message.Header); err != nil {
			return storedMsg{}, fmt.Errorf("get message: %w", err)
		}
	}
	return out, nil
}

// isWrongSequence reports whether a write was refused because the subject
// changed since it was looked at.
func isWrongSequence(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// full turns a server's refusal for lack of room into ErrQuota.
func full(err error) error {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch e.ErrorCode {
		case 10077: // store failed: the stream's own limit
			return fmt.Errorf("%w: the server refuses: %w", offload.ErrQuota, err)
		case 10023, 10047, 10028, 10002: // insufficient resources, storage or account limits
			return fmt.Errorf("%w: the server has no room: %w", offload.ErrQuota, err)
		}
	}
	return err
}
