package jsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Messages iterates over the messages that get selects, in the order of the stream,
// until there are no more. It requests for get.Batch messages (default 256) at a time and
// needs no consumer. The server may take the default timeout for each message.
func (a API) Messages(ctx context.Context, stream string, get Get) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		sub, err := a.nc.SubscribeSync(a.nc.NewInbox())
		if err != nil {
			yield(Message{}, err)
			return
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
		if get.Batch <= 0 {
			get.Batch = 256
		}
		if get.Sequence == 0 && get.StartTime.IsZero() {
			get.Sequence = 1
		}
		for {
			body, err := json.Marshal(get)
			if err == nil {
				err = a.nc.PublishRequest(a.prefix+"DIRECT.GET."+stream, sub.Subject, body)
			}
			if err != nil {
				yield(Message{}, err)
				return
			}
			for ended := false; !ended; {
				m, err := a.next(ctx, sub)
				switch {
				case errors.Is(err, errEndOfBatch):
					ended = true
				case errors.Is(err, jetstream.ErrMsgNotFound):
					return
				case err != nil:
					yield(Message{}, err)
					return
				default:
					get.Sequence, get.StartTime = m.Sequence+1, time.Time{}
					if !yield(m, nil) {
						return
					}
				}
			}
		}
	}
}

// AllMessages is Messages, and then asks the leader for those that the replica which answered did not have yet: one that
// stood still, or is cut off, goes on to answer with what it has. It ends at the message that was the last one when the
// leader was first asked, so that it ends while others publish.
func (a API) AllMessages(ctx context.Context, stream string, get Get) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) { a.all(ctx, stream, get, yield) }
}

func (a API) all(ctx context.Context, stream string, get Get, yield func(Message, error) bool) {
	for m, err := range a.Messages(ctx, stream, get) {
		get.Sequence, get.StartTime = m.Sequence+1, time.Time{}
		if !yield(m, err) || err != nil {
			return
		}
	}
	var newest Message
	for get.Batch, get.MaxBytes = 0, 0; ; {
		m, err := a.GetFromLeader(ctx, stream, get)
		if err == nil && newest.Sequence == 0 {
			newest, err = a.GetFromLeader(ctx, stream, Get{LastBySubject: cmp.Or(get.NextBySubject, ">")})
		}
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return
		}
		get.Sequence, get.StartTime = m.Sequence+1, time.Time{}
		if !yield(m, err) || err != nil || m.Sequence >= newest.Sequence {
			return
		}
	}
}

func (a API) next(ctx context.Context, sub *nats.Subscription) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	reply, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return Message{}, err
	}
	return parseMessage(reply)
}
