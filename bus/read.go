package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
)

// Query selects messages of a stream.
type Query struct {
	// Subject may have wildcards. Empty means all messages.
	Subject string
	// From is the first sequence. Before is the one after the last; 0 means no bound.
	From, Before uint64
	// Since skips messages that were stored before.
	Since time.Time
	// Limit is how many messages are read; 0 means all.
	Limit int
	// Back reads the newest message first. Then From and Since have no effect.
	Back bool
}

// Back returns the query for the messages on a subject that were stored before a sequence
// (0: all), newest first. A caller that stops continues before the last message that it got.
func Back(subject string, before uint64) Query {
	return Query{Subject: subject, Before: before, Back: true}
}

const (
	// readFirst is how many messages are requested one by one before batches: for each
	// batch, the server counts all messages on the subject.
	readFirst = 4
	// readBatch and readBytes limit one batch.
	readBatch = 256
	readBytes = 4 << 20
)

// Read iterates over the messages of a stream that a query selects, in the order of the
// stream. It needs no consumer, and loads at most a batch ahead. It misses no message that was stored before it
// began, even if the replica that answers lags behind.
func (b *Bus) Read(ctx context.Context, stream string, q Query) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) { b.read(ctx, stream, q, yield) }
}

func (b *Bus) read(ctx context.Context, stream string, q Query, yield func(Stored, error) bool) {
	r := reader{api: b.api, name: b.StreamName(stream), Query: q}
	if r.Subject == "" {
		r.Subject = ">"
	}
	n := 0
	each := func(m jsapi.Message) bool {
		n++
		return yield(storedOf(m), nil) && n != q.Limit
	}
	var err error
	r.stream, err = b.UsedStream(ctx, stream)
	if r.stream != nil && coversAll(r.Subject, r.stream.CachedInfo().Config.Subjects) {
		r.Subject = ">" // for a filter, the server counts all messages that match, for each batch
	}
	switch {
	case r.stream == nil:
	case q.Back:
		err = r.back(ctx, each)
	default:
		err = r.forward(ctx, each)
	}
	if err != nil {
		yield(Stored{}, fmt.Errorf("read stream %s: %w", r.name, err))
	}
}

// coversAll reports whether a filter selects all messages of a stream with these subjects.
func coversAll(filter string, subjects []string) bool {
	want := strings.Split(filter, ".")
	for _, subject := range subjects {
		have := strings.Split(subject, ".")
		if n := len(want) - 1; want[n] == ">" && len(have) > n {
			have = append(have[:n], ">")
		}
		if len(have) != len(want) {
			return false
		}
		for i, token := range have {
			if want[i] != token && (want[i] != "*" || token == ">") {
				return false
			}
		}
	}
	return len(subjects) > 0
}

// First returns the first message of a stream on subjects that match, from a sequence on. Its Sequence is 0 if there is none.
func (b *Bus) First(ctx context.Context, stream, subject string, from uint64) (Stored, error) {
	for m, err := range b.Read(ctx, stream, Query{Subject: subject, From: from, Limit: 1}) {
		return m, err
	}
	return Stored{}, nil
}

// Last returns the last message on a subject of a stream. Its Sequence is 0 if there is
// none.
func (b *Bus) Last(ctx context.Context, stream, subject string) (Stored, error) {
	if err := CheckSubject(subject); err != nil {
		return Stored{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	s, err := b.UsedStream(ctx, stream)
	if s == nil {
		return Stored{}, err
	}
	var m jsapi.Message
	switch name, config, get := b.StreamName(stream), s.CachedInfo().Config, (jsapi.Get{LastBySubject: subject}); {
	case config.Replicas <= 1: // no other replica knows more
		m, err = b.reads.last(ctx, b.api, name, subject)
	case config.MaxMsgsPerSubject == 1: // a replica has the only one, or none
		m, err = b.api.GetMessage(ctx, name, get)
	default: // a replica that lags behind has an older one
		m, err = b.api.GetFromLeader(ctx, name, get)
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return Stored{}, nil
	case err != nil:
		return Stored{}, fmt.Errorf("read %q: %w", subject, err)
	}
	return storedOf(m), nil
}

// Delete deletes a message of a stream, if it still exists.
func (b *Bus) Delete(ctx context.Context, stream string, sequence uint64) error {
	return b.api.DeleteMessage(ctx, b.StreamName(stream), sequence)
}

// DeletesAtOnce is how many messages are deleted at once. The server handles the deletes of a connection one after the other
// and syncs each, so with many more they time out.
const DeletesAtOnce = 24

// DeleteAll deletes messages of a stream, those that still exist.
func (b *Bus) DeleteAll(ctx context.Context, stream string, sequences []uint64) error {
	var group errgroup.Group
	group.SetLimit(DeletesAtOnce)
	for _, sequence := range sequences {
		group.Go(func() error { return b.Delete(ctx, stream, sequence) })
	}
	return group.Wait()
}

// Purge removes the messages on a subject of a stream that have a sequence before the given one; 0 means all.
func (b *Bus) Purge(ctx context.Context, stream, subject string, before uint64) error {
	s, err := b.UsedStream(ctx, stream)
	if s == nil {
		return err
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(before))
}

// IsStored reports whether a stream still has the message with a sequence.
func IsStored(ctx context.Context, b *Bus, stream string, sequence uint64) (bool, error) {
	for _, err := range b.Read(ctx, stream, Query{From: sequence, Before: sequence + 1}) {
		return err == nil, err
	}
	return false, nil
}

// reader reads what a query selects.
type reader struct {
	api    jsapi.API
	stream jetstream.Stream
	name   string // of the stream
	Query
}

// forward calls yield for each message until it returns false.
func (r reader) forward(ctx context.Context, yield func(jsapi.Message) bool) error {
	get := jsapi.Get{NextBySubject: r.Subject, Sequence: max(r.From, 1), StartTime: r.Since}
	if !r.Since.IsZero() {
		get.Sequence = 0
	}
	// next reports whether more messages may follow.
	next := func(m jsapi.Message) bool {
		get.Sequence, get.StartTime = m.Sequence+1, time.Time{}
		return (r.Before == 0 || m.Sequence < r.Before) && yield(m) && (r.Before == 0 || m.Sequence+1 < r.Before)
	}
	for range readFirst {
		m, err := r.api.GetMessage(ctx, r.name, get) // asks the leader if a replica has none
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err != nil || !next(m) {
			return err
		}
	}
	get.Batch, get.MaxBytes = readBatch, readBytes
	if r.Limit > 0 {
		get.Batch = min(r.Limit-readFirst, readBatch)
	}
	for m, err := range r.api.AllMessages(ctx, r.name, get) {
		if err != nil || !next(m) {
			return err
		}
	}
	return nil
}

const (
	// backWindow is how many sequences back looks at first. It looks at more of them if few
	// have the subject.
	backWindow = 64
	// backMessages and backBytes limit the messages in memory.
	backMessages = 512
	backBytes    = 16 << 20
)

// back is forward with the newest message first. A stream can be read only forward, so it
// reads windows, each before the last one.
func (r reader) back(ctx context.Context, yield func(jsapi.Message) bool) error {
	info, err := r.stream.Info(ctx)
	if err != nil {
		return err
	}
	first, end := info.State.FirstSeq, info.State.LastSeq+1
	if r.Before > 0 {
		end = min(end, r.Before)
	}
	for width := uint64(backWindow); end > first; {
		low := first
		if end-first > width {
			low = end - width
		}
		window, all, err := r.window(ctx, low, end)
		if err != nil {
			return err
		}
		if !all && width > 1 { // too many for memory
			width = max(width/8, 1)
			continue
		}
		for _, m := range slices.Backward(window) {
			if !yield(m) {
				return nil
			}
		}
		end = low
		if len(window) < backWindow/2 {
			width *= 4
		}
	}
	return nil
}

// window returns the messages with sequences from low to before end, or all false if
// they exceed the limits.
func (r reader) window(ctx context.Context, low, end uint64) (window []jsapi.Message, all bool, err error) {
	size := 0
	get := jsapi.Get{NextBySubject: r.Subject, Sequence: low, Batch: int(min(end-low, readBatch)), MaxBytes: readBytes}
	for m, err := range r.api.AllMessages(ctx, r.name, get) {
		if err != nil {
			return nil, false, err
		}
		if m.Sequence >= end {
			break
		}
		if size += len(m.Data); len(window) >= backMessages || size > backBytes && len(window) > 0 {
			return nil, false, nil
		}
		window = append(window, m)
	}
	return window, true, nil
}
