package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Sweep implements Store. It needs the right to purge both buckets.
//
// The order makes it safe beside any Put: chunks are listed before objects, and
// objects before records, so that whatever is named later was listed as what it
// became, or is younger than grace. An object is removed by the sequence of its
// meta message, which is another one as soon as a Put renewed it; a Put that
// takes longer than expected between its bytes and its record looks itself.
func (s *Store) Sweep(ctx context.Context, grace time.Duration) (offload.SweepReport, error) {
	report, err := s.sweep(ctx, grace)
	if err != nil {
		return report, fmt.Errorf("sweep artifacts: %w", err)
	}
	return report, nil
}

func (s *Store) sweep(ctx context.Context, grace time.Duration) (report offload.SweepReport, err error) {
	chunks, err := s.chunkSubjects(ctx)
	if err != nil {
		return report, err
	}
	objects, err := s.objects(ctx)
	if err != nil {
		return report, err
	}
	named, err := s.records.sweep(ctx, grace, &report)
	if err != nil {
		return report, err
	}
	users := map[string]int{} // of the chunks
	for _, o := range objects {
		users[s.chunkSubject(o.NUID)]++
	}
	for _, o := range objects {
		if named[offload.DigestPrefix+o.Name] || s.life.Age(o.time) < s.patience(o, grace) {
			continue
		}
		if err := s.sweepObject(ctx, o, users, &report); err != nil {
			return report, err
		}
	}
	for subject, n := range chunks {
		if users[subject] == 0 {
			if err := s.sweepChunks(ctx, subject, n, grace, &report); err != nil {
				return report, err
			}
		}
	}
	return report, nil
}

func (s *Store) chunkSubjects(ctx context.Context) (map[string]uint64, error) {
	info, err := s.blobs.Info(ctx, jetstream.WithSubjectFilter(s.chunkSubject(">")))
	if err != nil {
		return nil, fmt.Errorf("list chunks: %w", err)
	}
	return info.State.Subjects, nil
}

// sweptObject is what a sweep keeps of an object in memory.
type sweptObject struct {
	Name    string `json:"name"`
	NUID    string `json:"nuid"`
	Size    int64  `json:"size"`
	Deleted bool   `json:"deleted"`
	// Metadata tells our objects from others.
	Metadata map[string]string `json:"metadata"`

	ours bool
	seq  uint64
	time time.Time
}

// objects lists the bucket by batches of direct gets.
func (s *Store) objects(ctx context.Context) (list []sweptObject, err error) {
	sub, err := s.api.nc.SubscribeSync(s.api.nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	for next, open := uint64(1), false; ; {
		if !open {
			if err := s.api.ask(sub, "OBJ_"+s.bucket, msgRequest{Seq: next, Next: "$O." + s.bucket + ".M.>", Batch: 64}); err != nil {
				return nil, err
			}
			open = true
		}
		wait, cancel := s.api.within(ctx)
		raw, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
		m, err := parseDirect(raw)
		switch {
		case errors.Is(err, errEndOfBatch):
			open = false
			continue
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("list objects: %w", err)
		}
		next = m.seq + 1
		o := sweptObject{seq: m.seq, time: m.time}
		if err := json.Unmarshal(m.data, &o); err != nil {
			return nil, fmt.Errorf("list objects: message %d: %w", m.seq, err)
		}
		o.ours, o.Metadata = o.Metadata[metaIndex] != "", nil
		list = append(list, o)
	}
}

// patience is how old an object that no record names may get: one that a
// producer put there waits for its call to be worked on.
func (s *Store) patience(o sweptObject, grace time.Duration) time.Duration {
	if o.ours || o.Deleted {
		return grace
	}
	return max(grace, s.life.TTL)
}

// sweepObject removes an object if it is still the one that was listed.
func (s *Store) sweepObject(ctx context.Context, o sweptObject, users map[string]int, report *offload.SweepReport) error {
	if err := s.blobs.DeleteMsg(ctx, o.seq); err != nil {
		// Gone, if it was renewed, or removed by another sweep.
		_, gone := s.api.fromLeader(ctx, "OBJ_"+s.bucket, msgRequest{Seq: o.seq})
		if errors.Is(gone, jetstream.ErrMsgNotFound) {
			return nil
		}
		return fmt.Errorf("remove object %q: %w", o.Name, err)
	}
	subject := s.chunkSubject(o.NUID)
	if users[subject] == 1 {
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

// sweepChunks removes chunks without an object, unless they are still coming.
func (s *Store) sweepChunks(ctx context.Context, subject string, n uint64, grace time.Duration, report *offload.SweepReport) error {
	last, err := s.api.fromLeader(ctx, "OBJ_"+s.bucket, msgRequest{Last: subject})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at chunks without an object: %w", err)
	}
	if s.life.Age(last.time) < grace {
		return nil
	}
	err = s.blobs.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(last.seq+1))
	if err != nil {
		return fmt.Errorf("remove chunks without an object: %w", err)
	}
	report.Orphans += int(n)
	report.Bytes += int64(n-1)*index.BlockSize + int64(len(last.data))
	return nil
}

// sweep buries what expired, forgets what did long ago, and returns the digests
// that are named.
func (r *records) sweep(ctx context.Context, grace time.Duration, report *offload.SweepReport) (map[string]bool, error) {
	named := map[string]bool{}
	now := r.life.Now()
	type due struct {
		key string
		rev uint64
		record.Entry
	}
	var bury, forget []due
	var failed error
	err := r.each(ctx, ">", func(k jetstream.KeyValueEntry) {
		d := due{key: k.Key(), rev: k.Revision()}
		if k.Operation() != jetstream.KeyValuePut {
			if now.Sub(k.Created()) >= grace {
				forget = append(forget, d)
			}
			return
		}
		var err error
		if d.Entry, err = record.Decode(k.Value()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%q: %w", k.Key(), err))
		}
		switch {
		case !r.life.Expired(&d.Entry):
			named[d.Digest] = true
		case !d.Tombstone:
			bury = append(bury, d)
		case r.life.Forgotten(&d.Entry):
			forget = append(forget, d)
		}
	})
	if failed != nil {
		// A record that cannot be read may name any object.
		err = fmt.Errorf("nothing was removed, because a record could not be read: %w", errors.Join(failed, err))
	}
	if err != nil {
		return nil, err
	}
	for _, d := range bury {
		digest := d.Digest
		d.MakeTombstone()
		data, err := json.Marshal(d.Entry)
		if err != nil {
			return nil, err
		}
		switch _, err = r.kv.Update(ctx, d.key, data, d.rev); {
		case err == nil:
			report.Records++
		case errors.Is(err, jetstream.ErrKeyRevisionMismatch): // read or put again meanwhile
			named[digest] = true
		default:
			return nil, fmt.Errorf("bury record %q: %w", d.key, err)
		}
	}
	for _, d := range forget {
		err := r.stream.Purge(ctx, jetstream.WithPurgeSubject(r.subject(d.key)), jetstream.WithPurgeSequence(d.rev+1))
		if err != nil {
			return nil, fmt.Errorf("forget record %q: %w", d.key, err)
		}
	}
	return named, nil
}
