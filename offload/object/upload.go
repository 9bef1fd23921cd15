package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// smallChunks is the number of chunks up to which an object does without their
// sequences, so that none has to be known to name it.
const smallChunks = record.KeptBlocks

// upload is the way of one content to the server. Chunks are published as they
// come, and what they are is said at the end: until then nobody sees them.
//
//	send ... send -> commit -> name the object, or find that it is there
//	             \-> discard
type upload struct {
	s       *Store
	nuid    string
	acks    *acks
	pending []sentChunk // not acknowledged, oldest first
	seqs    []uint64    // of the acknowledged chunks
	after   uint64      // a sequence that was taken when the upload began
	window  window
	used    int64 // by others, when the upload began
	size    int64
	sent    int
	over    error // the quota is exceeded; nothing more is sent
}

// newUpload begins an upload, which ends with close.
func (s *Store) newUpload(used int64) (*upload, error) {
	acks, err := s.takeAcks()
	if err != nil {
		return nil, err
	}
	s.link.uploads.Add(1)
	return &upload{s: s, nuid: nuid.Next(), acks: acks, after: s.link.seq.Load(), window: s.link.newWindow(), used: used}, nil
}

func (u *upload) close() error {
	u.s.link.uploads.Add(-1)
	return u.s.leaveAcks(u.acks)
}

// send publishes one chunk. The connection copies it, so it may be reused.
func (u *upload) send(ctx context.Context, block []byte) error {
	u.size += int64(len(block))
	if err := u.s.life.CheckQuota(u.used, u.size); err != nil {
		// Content that is there already needs no room, and what this is shows
		// only at its end. Only what is larger than all can never be there.
		if u.over = err; u.size > u.s.life.Quota {
			return err
		}
		return nil
	}
	for len(u.pending) >= u.window.chunks() {
		if err := u.awaitOldest(ctx); err != nil {
			return err
		}
	}
	return u.publish(&nats.Msg{Subject: u.s.chunkSubject(u.nuid), Data: block})
}

func (u *upload) publish(chunk *nats.Msg) error {
	number, err := u.acks.publish(chunk)
	if err != nil {
		return fmt.Errorf("write chunk %d: %w", u.sent, err)
	}
	u.pending = append(u.pending, sentChunk{number, len(u.pending) + 1, time.Now()})
	u.sent++
	return nil
}

func (u *upload) awaitOldest(ctx context.Context) error {
	chunk := u.pending[0]
	seq, err := u.acks.await(ctx, chunk.number)
	u.pending = u.pending[1:]
	if err != nil {
		return fmt.Errorf("write chunk %d: %w", len(u.seqs), err)
	}
	u.seqs = append(u.seqs, seq)
	u.s.link.saw(seq)
	u.window.stored(chunk)
	return nil
}

func (u *upload) awaitAll(ctx context.Context) error {
	for len(u.pending) > 0 {
		if err := u.awaitOldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// commit makes an object of the chunks: durably, when it returns. If there is
// one with this content, that one is renewed and the chunks are discarded.
func (u *upload) commit(ctx context.Context, in *record.Ingested) error {
	if u.over != nil {
		defer u.discard(ctx)
		if there, err := u.s.renew(ctx, in.Digest); err != nil || there {
			return err
		}
		return u.over
	}
	name, foreseen, err := u.nameAhead(ctx, in)
	if err == nil {
		err = u.awaitAll(ctx)
	}
	if err != nil {
		u.unname(ctx, name)
		return err
	}
	named, err := u.awaitName(ctx, name)
	// The stream may end where foreseen by accident, as if it was made anew.
	wrong := isWrongSequence(err) || err == nil && !slices.Equal(foreseen, u.seqs)
	if foreseen != nil && wrong {
		err = u.nameNow(ctx, in, named)
	}
	if isWrongSequence(err) {
		return u.settle(ctx, in)
	}
	return u.named(ctx, err)
}

// nameAhead names the object while chunks are on their way, which saves a round
// trip, with the sequences that they get if nobody else writes: after the last one
// known. The server, to which they come first, refuses the name if the last is not
// the one foreseen, so that it is right also if this process ends here. It returns
// the number of the meta message, 0 if it was not published, and the sequences
// that stand in it, if any.
func (u *upload) nameAhead(ctx context.Context, in *record.Ingested) (number int, foreseen []uint64, err error) {
	header := nats.Header{}
	if u.sent > smallChunks {
		last := u.after
		if len(u.seqs) > 0 {
			last = u.seqs[len(u.seqs)-1]
		}
		foreseen = slices.Clone(u.seqs)
		for range u.pending {
			last++
			foreseen = append(foreseen, last)
		}
		header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(last, 10))
	}
	meta, err := u.s.encodeBlob(in, u.nuid, foreseen)
	if err != nil {
		return 0, nil, err
	}
	number, err = u.name(in.Digest, meta, 0, header)
	return number, foreseen, err
}

// nameNow names the object when all its chunks are known to be stored.
func (u *upload) nameNow(ctx context.Context, in *record.Ingested, last uint64) error {
	meta, err := u.s.encodeBlob(in, u.nuid, u.seqs)
	if err != nil {
		return err
	}
	return u.nameAndWait(ctx, in.Digest, meta, last)
}

func (u *upload) nameAndWait(ctx context.Context, digest string, meta []byte, last uint64) error {
	number, err := u.name(digest, meta, last, nats.Header{})
	if err == nil {
		_, err = u.awaitName(ctx, number)
	}
	return err
}

func (u *upload) awaitName(ctx context.Context, number int) (seq uint64, err error) {
	if seq, err = u.acks.await(ctx, number); err == nil {
		u.s.link.saw(seq)
	}
	return seq, err
}

// name publishes the meta message, if its subject's last sequence is as said.
func (u *upload) name(digest string, meta []byte, last uint64, header nats.Header) (number int, err error) {
	header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	if last > 0 { // a rollup makes the server look for what it replaces
		header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	}
	number, err = u.acks.publish(&nats.Msg{Subject: u.s.metaSubject(digest), Data: meta, Header: header})
	if err != nil {
		return 0, fmt.Errorf("name the object: %w", err)
	}
	return number, nil
}

// named is the end of naming. Unless the server refused, the object may have
// its name all the same: then the chunks stay, and a sweep decides.
func (u *upload) named(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, refused := errors.AsType[*jetstream.APIError](err); refused {
		u.discard(ctx)
	}
	return fmt.Errorf("name the object: %w", err)
}

// unname takes a name back that was published before its chunks were known to
// be stored, and they are not; and then the chunks. They stay if the object may
// have its name all the same, or if another Put found it and relies on it.
func (u *upload) unname(ctx context.Context, name int) {
	if name == 0 {
		u.discard(ctx)
		return
	}
	u.s.tidy(ctx, func(ctx context.Context) error {
		seq, err := u.acks.await(ctx, name)
		if _, refused := errors.AsType[*jetstream.APIError](err); refused {
			return u.purge(ctx)
		}
		if err != nil {
			return nil
		}
		err = u.s.blobs.DeleteMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // it was renewed
			return nil
		}
		if err != nil {
			return err
		}
		return u.purge(ctx)
	})
}

// settle is for content that has an object already, or had one a moment ago:
// whole, it is renewed; broken, it is replaced. Each step takes effect only if
// nobody, such as a sweep, changed the object since it was looked at.
func (u *upload) settle(ctx context.Context, in *record.Ingested) error {
	for {
		if there, err := u.s.renew(ctx, in.Digest); err != nil || there {
			u.discard(ctx)
			return err
		}
		var last uint64
		if b, err := u.s.latestBlob(ctx, in.Digest); err == nil {
			last = b.seq
			if u.s.whole(ctx, b) {
				continue // named meanwhile
			}
		} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return u.named(ctx, err)
		}
		if err := u.nameNow(ctx, in, last); !isWrongSequence(err) {
			return u.named(ctx, err)
		}
	}
}

// renew writes an object's meta message once more, so that it is young again,
// and reports whether there is such an object and all of it.
func (s *Store) renew(ctx context.Context, digest string) (bool, error) {
	up, err := s.newUpload(0)
	if err != nil {
		return false, err
	}
	defer up.close()
	for {
		b, err := s.latestBlob(ctx, digest)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for the object: %w", err)
		}
		if !s.whole(ctx, b) {
			return false, nil
		}
		err = up.nameAndWait(ctx, digest, b.data, b.seq)
		if !isWrongSequence(err) {
			return err == nil, err
		}
	}
}

// discard removes the chunks of an upload that came to nothing. Failing that, a
// sweep will: they have no name.
func (u *upload) discard(ctx context.Context) {
	if u.sent == 0 {
		return
	}
	u.s.tidy(ctx, u.purge)
}

func (u *upload) purge(ctx context.Context) error {
	u.acks.drain(ctx) // what is on its way would arrive after the purge
	return u.s.blobs.Purge(ctx, jetstream.WithPurgeSubject(u.s.chunkSubject(u.nuid)))
}

// tidy removes what a Put does not need, within a short time and also if its
// context has ended; a sweep would remove it too. A broker that does not allow
// it does not answer: that is remembered, so that nobody waits for it again.
func (s *Store) tidy(ctx context.Context, remove func(context.Context) error) {
	if s.noPurge.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.tidyTimeout)
	defer cancel()
	before := s.api.nc.Stats().Reconnects
	err := remove(ctx)
	if errors.Is(err, context.DeadlineExceeded) && s.api.nc.IsConnected() && s.api.nc.Stats().Reconnects == before {
		s.noPurge.Store(true)
	}
}
