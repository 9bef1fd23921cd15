package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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

// next returns the first message on a subject of a stream whose sequence is not
// less.
func (b *Bus) next(ctx context.Context, stream, subject string, sequence uint64) (*jetstream.RawStreamMsg, error) {
	if err := CheckSubject(subject); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	s, err := b.streamHandle(ctx, stream)
	if err != nil {
		return nil, err
	}
	return s.GetMsg(ctx, sequence, jetstream.WithGetMsgSubject(subject))
}

// maxOldCalls is how many calls OldCall looks at. Behind so many the one that is
// looked for is not worth the time.
const maxOldCalls = 1000

// OldCall reports whether a call waits on a subject, or is being handled, that
// was published so long ago that its key may be forgotten: publishing it again
// would make it two. Younger ones are told by their key. It looks at the first
// 1,000 at most.
func (b *Bus) OldCall(ctx context.Context, subject string, is func(body []byte) bool) (bool, error) {
	// Half the time leaves the other half to clocks that differ.
	young := time.Now().Add(-keysKept / 2)
	sequence := uint64(0)
	for range maxOldCalls {
		msg, err := b.next(ctx, Calls, subject, sequence+1)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read %q: %w", subject, err)
		case msg.Time.After(young):
			return false, nil
		case is(msg.Data):
			return true, nil
		}
		sequence = msg.Sequence
	}
	return false, nil
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
	answer, err := b.nc.RequestWithContext(ctx, b.apiPrefix()+".STREAM.MSG.GET."+stream, request)
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
