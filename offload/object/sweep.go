package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/tools"
)

// Sweep implements offload.Store. It needs the permission to purge both buckets.
//
// The order makes it safe during any Put: it lists chunks before objects, and objects
// before records. So everything that a record or an object uses later is either in
// an earlier list or was younger than grace when Sweep began. Sweep deletes an object by the sequence of
// its meta message, which changes if a Put renews it. A slow Put checks its blob
// after it wrote the record.
func (s *Store) Sweep(ctx context.Context, grace time.Duration) (offload.SweepReport, error) {
	report, err := s.sweep(ctx, grace)
	if err != nil {
		return report, fmt.Errorf("sweep artifacts: %w", err)
	}
	return report, nil
}

func (s *Store) sweep(ctx context.Context, grace time.Duration) (report offload.SweepReport, err error) {
	began := s.life.Now().Add(time.Millisecond) // Now leaves parts of one out
	chunks, err := s.blobs.Info(ctx, jetstream.WithSubjectFilter(s.chunkSubject(">")))
	if err != nil {
		return report, fmt.Errorf("list chunks: %w", err)
	}
	objects, err := s.objects(ctx)
	if err != nil {
		return report, err
	}
	used, err := s.records.sweep(ctx, grace, &report)
	if err != nil {
		return report, err
	}
	users := map[string]int{} // how many objects have the chunks of a subject
	for _, o := range objects {
		users[s.chunkSubject(o.NUID)]++
	}
	for _, o := range objects {
		if used[offload.DigestPrefix+o.Name] || began.Sub(o.time) < s.minAge(o, grace) {
			continue
		}
		if err := s.sweepObject(ctx, o, users, &report); err != nil {
			return report, err
		}
	}
	for subject, n := range chunks.State.Subjects {
		if users[subject] == 0 {
			if err := s.sweepChunks(ctx, subject, n, began.Add(-grace), &report); err != nil {
				return report, err
			}
		}
	}
	return report, nil
}

// sweptObject is what a sweep holds of an object in memory.
type sweptObject struct {
	Name     string            `json:"name"`
	NUID     string            `json:"nuid"`
	Size     int64             `json:"size"`
	Deleted  bool              `json:"deleted"`
	Metadata map[string]string `json:"metadata"`

	foreign bool // put by a producer
	seq     uint64
	time    time.Time
}

func (s *Store) objects(ctx context.Context) (list []sweptObject, err error) {
	for m, err := range s.api.AllMessages(ctx, s.stream(), jsapi.Get{NextBySubject: "$O." + s.bucket + ".M.>", Batch: 64}) {
		if err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
		o := sweptObject{seq: m.Sequence, time: m.Time}
		if json.Unmarshal(m.Data, &o) != nil { // no object, see decodeBlob
			o = sweptObject{Deleted: true, seq: m.Sequence, time: m.Time}
		}
		o.foreign, o.Metadata = o.Metadata[metaIndex] == "", nil
		list = append(list, o)
	}
	return list, nil
}

// minAge is the age at which a sweep removes an unused object. An object of a
// producer may wait for its call.
func (s *Store) minAge(o sweptObject, grace time.Duration) time.Duration {
	if o.foreign && !o.Deleted {
		return max(grace, s.life.TTL)
	}
	return grace
}

// sweepObject removes an object unless it changed since it was listed.
func (s *Store) sweepObject(ctx context.Context, o sweptObject, users map[string]int, report *offload.SweepReport) error {
	if err := s.blobs.DeleteMsg(ctx, o.seq); err != nil {
		// If the message is gone, a Put renewed the object or another sweep removed it.
		_, missing := s.api.GetFromLeader(ctx, s.stream(), jsapi.Get{Sequence: o.seq})
		if errors.Is(missing, jetstream.ErrMsgNotFound) {
			return nil
		}
		return fmt.Errorf("remove object %q: %w", o.Name, err)
	}
	subject := s.chunkSubject(o.NUID)
	if users[subject] == 1 && tools.IsToken(o.NUID) { // a wildcard would remove the chunks of others
		if err := s.blobs.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return fmt.Errorf("remove the chunks of object %q: %w", o.Name, err)
		}
	}
	if !o.Deleted {
		report.Blobs++
		report.Bytes += o.Size
	}
	return nil
}

// sweepChunks removes chunks without an object, unless one is younger than a time: their upload may still have
// been running when the objects were listed.
func (s *Store) sweepChunks(ctx context.Context, subject string, n uint64, young time.Time, report *offload.SweepReport) error {
	last, err := s.api.GetFromLeader(ctx, s.stream(), jsapi.Get{LastBySubject: subject})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get the last chunk of an upload: %w", err)
	}
	if last.Time.After(young) {
		return nil
	}
	err = s.blobs.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(last.Sequence+1))
	if err != nil {
		return fmt.Errorf("remove chunks without an object: %w", err)
	}
	report.Orphans += int(n)
	report.Bytes += int64(n-1)*index.BlockSize + int64(len(last.Data))
	return nil
}

// sweep turns expired records into tombstones, removes old tombstones, and returns
// the digests that are still used.
func (r *records) sweep(ctx context.Context, grace time.Duration, report *offload.SweepReport) (map[string]bool, error) {
	type dueEntry struct {
		key string
		rev uint64
		record.Entry
	}
	var expired, forgotten []dueEntry
	var failed error
	used := map[string]bool{}
	err := r.each(ctx, ">", func(key string, m jsapi.Message) bool {
		e := dueEntry{key: key, rev: m.Sequence}
		if isDeleteMarker(m.Header) {
			if r.life.Age(m.Time) >= max(grace, r.life.TTL) { // what it replaced comes back after a kill of the server (nats-server 8505), expired
				forgotten = append(forgotten, e)
			}
			return true
		}
		var err error
		if e.Entry, err = record.Decode(m.Data); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%q: %w", key, err))
		}
		switch {
		case !r.life.Expired(&e.Entry):
			used[e.Digest] = true
		case !e.Tombstone:
			expired = append(expired, e)
		case r.life.Forgotten(&e.Entry):
			forgotten = append(forgotten, e)
		}
		return true
	})
	if failed != nil {
		// An unreadable record may use any object.
		err = fmt.Errorf("nothing was removed, because a record is unreadable: %w", errors.Join(failed, err))
	}
	if err != nil {
		return nil, err
	}
	for _, e := range expired {
		e.MakeTombstone()
		data, err := json.Marshal(e.Entry)
		if err != nil {
			return nil, err
		}
		switch _, err = r.kv.Update(ctx, e.key, data, e.rev); {
		case err == nil, errors.Is(quotaError(err), offload.ErrQuota): // a full server removes the content nevertheless, a later sweep makes the tombstone
			report.Records++
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch): // it was read or put again
			used[e.Digest] = true
		default:
			return nil, fmt.Errorf("expire record %q: %w", e.key, err)
		}
	}
	for _, e := range forgotten {
		err := r.stream.Purge(ctx, jetstream.WithPurgeSubject(r.subject(e.key)), jetstream.WithPurgeSequence(e.rev+1))
		if err != nil {
			return nil, fmt.Errorf("remove record %q: %w", e.key, err)
		}
	}
	return used, nil
}
