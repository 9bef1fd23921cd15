package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stevedore-bus/stevedore/bus/jsapi"
	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/tools"
)

// records is a key-value bucket of records, under <session>.<id>. Each write succeeds
// only if the key has not changed since it was read.
type records struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream
	bucket string
	api    jsapi.API
	life   record.Lifecycle
}

func openRecords(ctx context.Context, js jetstream.JetStream, bucket string, api jsapi.API, life record.Lifecycle) (records, error) {
	r := records{bucket: bucket, api: api, life: life}
	var err error
	if r.kv, err = js.KeyValue(ctx, bucket); err != nil {
		return r, err
	}
	r.stream, err = js.Stream(ctx, "KV_"+bucket)
	return r, err
}

func (r *records) subject(key string) string { return "$KV." + r.bucket + "." + key }

func recordKey(session, id string) string { return session + "." + id }

// create writes a record, or returns the existing one. ErrExists.
func (r *records) create(ctx context.Context, rec offload.Record) (offload.Record, error) {
	data, err := json.Marshal(record.Entry{Record: rec})
	if err != nil {
		return rec, err
	}
	key := recordKey(rec.Session, rec.ID)
	for {
		_, err := r.kv.Create(ctx, key, data)
		if err == nil {
			return rec, nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return rec, fmt.Errorf("write record: %w", quotaError(err))
		}
		old, rev, err := r.latest(ctx, key)
		replaced := &old
		switch {
		case errors.Is(err, offload.ErrNotFound):
			continue // it was deleted since
		case errors.Is(err, offload.ErrCorrupt):
			replaced = nil
		case err != nil:
			return rec, err
		}
		e, write, err := r.life.Put(replaced, rec)
		if err != nil || !write {
			return e.Record, err
		}
		update, err := json.Marshal(e)
		if err != nil {
			return rec, err
		}
		_, err = r.kv.Update(ctx, key, update, rev)
		if err == nil {
			return e.Record, nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return rec, fmt.Errorf("write record: %w", quotaError(err))
		}
	}
}

// read returns a record that is not expired. ErrNotFound, ErrExpired.
func (r *records) read(ctx context.Context, session, id string) (record.Entry, uint64, error) {
	if err := record.CheckLookup(session, id); err != nil {
		return record.Entry{}, 0, err
	}
	m, err := r.api.GetMessage(ctx, "KV_"+r.bucket, jsapi.Get{LastBySubject: r.subject(recordKey(session, id))})
	e, err := r.decode(recordKey(session, id), m, err)
	if err == nil && r.life.Expired(&e) {
		err = offload.ErrExpired
	}
	return e, m.Sequence, err
}

// latest returns the entry of a key from the leader, even if it is expired.
func (r *records) latest(ctx context.Context, key string) (record.Entry, uint64, error) {
	m, err := r.api.GetFromLeader(ctx, "KV_"+r.bucket, jsapi.Get{LastBySubject: r.subject(key)})
	e, err := r.decode(key, m, err)
	return e, m.Sequence, err
}

func (r *records) decode(key string, m jsapi.Message, err error) (record.Entry, error) {
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && isDeleteMarker(m.Header):
		return record.Entry{}, offload.ErrNotFound
	case err != nil:
		return record.Entry{}, fmt.Errorf("read record: %w", err)
	}
	return decodeRecord(key, m.Data)
}

// decodeRecord decodes the record of a key. A record that belongs to another key is
// corrupt: it would give a session the artifact of another one.
func decodeRecord(key string, data []byte) (record.Entry, error) {
	e, err := record.Decode(data)
	if err == nil && recordKey(e.Session, e.ID) != key {
		return record.Entry{}, fmt.Errorf("the record %q is that of session %q, id %q: %w", key, tools.Excerpt(e.Session, 80),
			tools.Excerpt(e.ID, 80), offload.ErrCorrupt)
	}
	return e, err
}

func isDeleteMarker(h nats.Header) bool {
	op := h.Get("KV-Operation")
	return op == "DEL" || op == "PURGE" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// Get implements Store.
func (s *Store) Get(ctx context.Context, session, id string) (offload.Record, error) {
	e, err := s.records.get(ctx, session, id)
	if err != nil {
		return offload.Record{}, fmt.Errorf("get artifact %q: %w", id, err)
	}
	return e.Record, nil
}

// get refreshes the expiry. A client that may not write can still read.
func (r *records) get(ctx context.Context, session, id string) (record.Entry, error) {
	for {
		e, rev, err := r.read(ctx, session, id)
		moved := e
		if err != nil || !r.life.Refresh(&moved) {
			return e, err
		}
		data, err := json.Marshal(moved)
		if err != nil {
			return e, err
		}
		_, err = r.kv.Update(ctx, recordKey(session, id), data, rev)
		switch {
		case err == nil:
			return moved, nil
		case ctx.Err() != nil:
			return e, ctx.Err()
		case !errors.Is(err, jetstream.ErrKeyRevisionMismatch):
			return e, nil
		}
		// Another client refreshed it, or a sweep changed it: read it again.
		if _, newer, err := r.latest(ctx, recordKey(session, id)); err != nil || newer == rev {
			return e, err
		}
	}
}

// List implements Store.
func (s *Store) List(ctx context.Context, session string) iter.Seq2[offload.Record, error] {
	return s.life.List(func(yield func(record.Entry, error) bool) {
		keys := ">"
		if session != "" {
			if !tools.IsToken(session) {
				return
			}
			keys = session + ".*"
		}
		seen := map[string]bool{}
		err := s.records.each(ctx, keys, func(key string, m jsapi.Message) bool {
			if seen[key] || isDeleteMarker(m.Header) {
				return true
			}
			seen[key] = true
			e, err := decodeRecord(key, m.Data)
			if err != nil {
				err = fmt.Errorf("%q: %w", key, err)
			}
			return yield(e, err)
		})
		if err != nil {
			yield(record.Entry{}, err)
		}
	})
}

// each calls f for the last message of each key, including delete markers, until it returns false. It
// leaves out what has no key of a record: nobody could remove it. One that changes meanwhile may come twice, the newer one last;
// a watch of the library could end before it.
func (r *records) each(ctx context.Context, keys string, f func(key string, m jsapi.Message) bool) error {
	for m, err := range r.api.AllMessages(ctx, "KV_"+r.bucket, jsapi.Get{NextBySubject: r.subject(keys), MaxBytes: 4 << 20}) {
		if err != nil {
			return err
		}
		key := strings.TrimPrefix(m.Subject, r.subject(""))
		if session, id, _ := strings.Cut(key, "."); record.CheckKey(session, id) == nil && !f(key, m) {
			return nil
		}
	}
	return nil
}

// Delete implements Store.
func (s *Store) Delete(ctx context.Context, session, id string) error {
	if err := s.records.delete(ctx, session, id); err != nil {
		return fmt.Errorf("delete artifact %q: %w", id, err)
	}
	return nil
}

func (r *records) delete(ctx context.Context, session, id string) error {
	if err := record.CheckLookup(session, id); err != nil {
		return err
	}
	key := recordKey(session, id)
	for {
		e, rev, err := r.latest(ctx, key)
		if err != nil && !errors.Is(err, offload.ErrCorrupt) {
			return err
		}
		if e.Tombstone {
			return offload.ErrNotFound
		}
		err = r.kv.Delete(ctx, key, jetstream.LastRevision(rev))
		if errors.Is(quotaError(err), offload.ErrQuota) { // a purge needs no space
			return r.stream.Purge(ctx, jetstream.WithPurgeSubject(r.subject(key)))
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) && !isWrongSequence(err) {
			return err
		}
	}
}
