package object

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/record"
)

const (
	// smallChunks is the number of chunks up to which the meta message of an object does
	// not list their sequences, so that it can be published before they are known.
	smallChunks = record.KeptBlocks
	// maxInFlight is how many chunks the uploads of a store have in flight together:
	// 8 MiB. The server refuses chunks if more than 128 MiB of a stream wait to be stored.
	maxInFlight = 64
)

// upload publishes one content. Readers see the chunks after the meta message, which
// names the object, is stored:
//
//	send ... send -> commit -> publish the meta message, or renew the existing object
//	             \-> discard
type upload struct {
	s        *Store
	nuid     string
	pending  []jetstream.PubAckFuture // chunks without an answer, oldest first
	seqs     []uint64                 // of the acknowledged chunks
	used     int64                    // bytes in the bucket when the upload began
	size     int64
	sent     int
	quotaErr error // the quota is exceeded; send publishes nothing more
}

// newUpload begins an upload. The caller must close it.
func (s *Store) newUpload(used int64) *upload {
	s.uploads.Add(1)
	return &upload{s: s, nuid: nuid.Next(), used: used}
}

func (u *upload) close() { u.s.uploads.Add(-1) }

// send publishes one chunk. The caller may reuse block afterwards.
func (u *upload) send(ctx context.Context, block []byte) error {
	u.size += int64(len(block))
	if err := u.s.life.CheckQuota(u.used, u.size); err != nil {
		// The content may be stored already, which is known only after its last
		// byte. Only a content larger than the quota cannot be stored.
		if u.quotaErr = err; u.size > u.s.life.Quota {
			return err
		}
		return nil
	}
	for len(u.pending) >= max(maxInFlight/int(u.s.uploads.Load()), 1) {
		if err := u.awaitOldest(ctx); err != nil {
			return err
		}
	}
	return u.publish(&nats.Msg{Subject: u.s.chunkSubject(u.nuid), Data: block})
}

func (u *upload) publish(chunk *nats.Msg) error {
	ack, err := u.s.publish(chunk)
	if err != nil {
		return fmt.Errorf("write chunk %d: %w", u.sent, err)
	}
	u.pending = append(u.pending, ack)
	u.sent++
	return nil
}

// publish publishes a message without waiting for the answer. It does not retry,
// because the caller may reuse the data.
func (s *Store) publish(m *nats.Msg) (jetstream.PubAckFuture, error) {
	return s.publisher.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
}

// await returns the sequence of a published message. answered is false if ctx ended
// first.
func (s *Store) await(ctx context.Context, ack jetstream.PubAckFuture) (seq uint64, answered bool, err error) {
	select {
	case stored := <-ack.Ok():
		return stored.Sequence, true, nil
	case err := <-ack.Err():
		return 0, true, quotaError(err)
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
}

func (u *upload) awaitOldest(ctx context.Context) error {
	seq, answered, err := u.s.await(ctx, u.pending[0])
	if answered {
		u.pending = u.pending[1:]
	}
	if err != nil {
		return fmt.Errorf("write chunk %d: %w", len(u.seqs), err)
	}
	u.seqs = append(u.seqs, seq)
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

// commit makes an object of the chunks. It is durable when commit returns. If an
// object with this content exists, commit renews that one and discards the chunks.
func (u *upload) commit(ctx context.Context, in *record.Ingested) error {
	if u.quotaErr == nil {
		if err := u.checkQuota(ctx); err != nil && !errors.Is(err, offload.ErrQuota) {
			u.discard(ctx)
			return err
		} else if err != nil {
			u.quotaErr = err
		}
	}
	if u.quotaErr != nil {
		defer u.discard(ctx)
		if exists, _, err := u.s.renew(ctx, in.Digest, indexDigest(in)); err != nil || exists {
			return err
		}
		return u.quotaErr
	}
	var early jetstream.PubAckFuture // of a small object: saves a round trip
	var err error
	if u.sent <= smallChunks {
		early, err = u.sendMeta(in, 0)
	}
	if err == nil {
		err = u.awaitAll(ctx)
	}
	switch {
	case err != nil && early != nil:
		u.s.tidy(ctx, func(ctx context.Context) error { return u.retract(ctx, early) })
		return err
	case err != nil:
		u.discard(ctx)
		return err
	case early != nil:
		_, _, err = u.s.await(ctx, early)
	default:
		err = u.publishMeta(ctx, in, 0)
	}
	if isWrongSequence(err) {
		return u.resolveConflict(ctx, in)
	}
	return u.committed(ctx, err)
}

// checkQuota returns ErrQuota if the bucket exceeds the quota with the chunks of this
// upload and of all others. Of several uploads that do not fit together, the last one to
// check fails at the latest, because the others have stored their chunks before.
func (u *upload) checkQuota(ctx context.Context) error {
	if u.s.life.Quota <= 0 {
		return nil
	}
	if err := u.awaitAll(ctx); err != nil {
		return err
	}
	used, err := u.s.used(ctx)
	if err != nil {
		return err
	}
	return u.s.life.CheckQuota(used, 0)
}

// publishMeta publishes the meta message of the stored chunks.
func (u *upload) publishMeta(ctx context.Context, in *record.Ingested, last uint64) error {
	meta, err := u.sendMeta(in, last)
	if err == nil {
		_, _, err = u.s.await(ctx, meta)
	}
	return err
}

// sendMeta publishes the meta message without waiting for the answer.
func (u *upload) sendMeta(in *record.Ingested, last uint64) (jetstream.PubAckFuture, error) {
	var seqs []uint64
	if u.sent > smallChunks {
		seqs = u.seqs
	}
	data, err := u.s.encodeBlob(in, u.nuid, seqs)
	if err != nil {
		return nil, err
	}
	return u.s.sendMeta(in.Digest, data, last)
}

func (s *Store) storeMeta(ctx context.Context, digest string, data []byte, last uint64) error {
	meta, err := s.sendMeta(digest, data, last)
	if err == nil {
		_, _, err = s.await(ctx, meta)
	}
	return err
}

// sendMeta publishes a meta message. The server rejects it unless last is the last
// sequence of its subject.
func (s *Store) sendMeta(digest string, data []byte, last uint64) (jetstream.PubAckFuture, error) {
	header := nats.Header{}
	header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	if last > 0 { // a rollup makes the server search for the message that it replaces
		header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	}
	meta, err := s.publish(&nats.Msg{Subject: s.metaSubject(digest), Data: data, Header: header})
	if err != nil {
		return nil, fmt.Errorf("name the object: %w", err)
	}
	return meta, nil
}

// committed ends commit. The chunks stay unless the server rejected the meta message:
// the object may exist, so a sweep decides.
func (u *upload) committed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if isRejected(err) {
		u.discard(ctx)
	}
	return fmt.Errorf("name the object: %w", err)
}

// retract removes the meta message of an object that lacks a chunk, and then the chunks.
// Both stay if the server may still store the message, or if another Put renewed the object.
func (u *upload) retract(ctx context.Context, meta jetstream.PubAckFuture) error {
	seq, _, err := u.s.await(ctx, meta)
	if err == nil {
		err = u.s.blobs.DeleteMsg(ctx, seq)
	} else if isRejected(err) {
		err = nil
	}
	if err != nil {
		return err
	}
	return u.purge(ctx)
}

// resolveConflict handles a content that has an object, or had one a moment ago. It
// renews a complete object and replaces an incomplete one. The server rejects each
// step if another client, such as a sweep, changed the object in between.
func (u *upload) resolveConflict(ctx context.Context, in *record.Ingested) error {
	for {
		exists, last, err := u.s.renew(ctx, in.Digest, indexDigest(in))
		if err != nil || exists {
			u.discard(ctx)
			return err
		}
		if err := u.publishMeta(ctx, in, last); !isWrongSequence(err) {
			return u.committed(ctx, err)
		}
	}
}

// indexDigest returns the digest of the encoded index, "" if it cannot be encoded.
func indexDigest(in *record.Ingested) string {
	encoded, err := in.Index.MarshalBinary()
	if err != nil {
		return ""
	}
	return digestOf(encoded)
}

// discard removes the chunks of a failed upload. If that fails, a sweep removes them.
func (u *upload) discard(ctx context.Context) {
	if u.sent > 0 {
		u.s.tidy(ctx, u.purge)
	}
}

func (u *upload) purge(ctx context.Context) error {
	for _, ack := range u.pending { // a chunk in flight would arrive after the purge
		u.s.await(ctx, ack)
	}
	u.pending = nil
	return u.s.blobs.Purge(ctx, jetstream.WithPurgeSubject(u.s.chunkSubject(u.nuid)))
}
