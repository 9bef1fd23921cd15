package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Last returns the newest message on a subject of a stream, or ok false.
func (b *Bus) Last(ctx context.Context, stream, subject string) (body []byte, ok bool, err error) {
	body, sequence, err := b.LastRevision(ctx, stream, subject)
	return body, sequence > 0, err
}

// LastRevision returns the newest message on a subject of a stream and its
// sequence, which is 0 if there is none: what ExpectRevision wants.
func (b *Bus) LastRevision(ctx context.Context, stream, subject string) (body []byte, sequence uint64, err error) {
	if err := CheckSubject(subject); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	s, err := b.streamHandle(ctx, stream)
	if err != nil {
		return nil, 0, err
	}
	msg, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) && s.CachedInfo().Config.Replicas > 1 {
		// A direct get may be answered by a replica that lags behind; that
		// nothing is there must be the leader's word.
		msg, err = b.lastFromLeader(ctx, s.CachedInfo().Config.Name, subject)
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %q: %w", subject, err)
	}
	return msg.Data, msg.Sequence, nil
}

// streamHandle looks a stream up once; handles are cheap but looking up is a
// request.
func (b *Bus) streamHandle(ctx context.Context, stream string) (jetstream.Stream, error) {
	name := b.StreamName(stream)
	if s, ok := b.handles.Load(name); ok {
		return s.(jetstream.Stream), nil
	}
	s, err := b.js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	b.handles.Store(name, s)
	return s, nil
}

func (b *Bus) lastFromLeader(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	request, err := Encode(map[string]string{"last_by_subj": subject})
	if err != nil {
		return nil, err
	}
	answer, err := b.nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+"STREAM.MSG.GET."+stream, request)
	if err != nil {
		return nil, err
	}
	var got struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(answer.Data, &got); {
	case err != nil:
		return nil, err
	case got.Error != nil && got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, jetstream.ErrMsgNotFound
	case got.Error != nil:
		return nil, got.Error
	}
	return &jetstream.RawStreamMsg{Subject: subject, Sequence: got.Message.Sequence, Data: got.Message.Data}, nil
}
