package record

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
)

// Lifecycle decides when records expire and whether the store is full:
//
//	put -> live -- TTL after the last read --> expired -- sweep --> tombstone -- TTL --> forgotten
type Lifecycle struct {
	TTL   time.Duration
	Quota int64 // 0 means no limit
	clock func() time.Time
}

const defaultTTL = 7 * 24 * time.Hour

// NewLifecycle returns the life cycle of the records of a store with this config.
func NewLifecycle(cfg offload.StoreConfig) Lifecycle {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return Lifecycle{cmp.Or(max(cfg.TTL, 0), defaultTTL), cfg.Quota, cfg.Now}
}

// Now returns the store's time in UTC and whole milliseconds, so that Put and Get
// return equal records.
func (l Lifecycle) Now() time.Time { return l.clock().UTC().Truncate(time.Millisecond) }

// Age returns the time since t, by the store's clock.
func (l Lifecycle) Age(t time.Time) time.Duration { return l.clock().Sub(t) }

// Complete sets the fields of a new record that depend on its content and on the
// clock. Digest is the hexadecimal SHA-256.
func (l Lifecycle) Complete(rec *offload.Record, x *index.Index, digest string) {
	rec.Size, rec.Chars, rec.Lines = x.Size(), x.TotalChars(), x.Lines()
	rec.Tokens = offload.TokensOfRunes(rec.Chars)
	rec.Digest = offload.DigestPrefix + digest
	rec.CreatedAt = l.Now()
	rec.ExpiresAt = rec.CreatedAt.Add(l.TTL)
}

// Expired reports whether the record is expired. A tombstone is.
func (l Lifecycle) Expired(e *Entry) bool { return e.Tombstone || !l.Now().Before(e.ExpiresAt) }

// Check returns the error of Get for an entry, which is nil if there is none:
// ErrNotFound, ErrExpired or nil.
func (l Lifecycle) Check(e *Entry) error {
	switch {
	case e == nil:
		return offload.ErrNotFound
	case l.Expired(e):
		return offload.ErrExpired
	}
	return nil
}

// Forgotten reports whether a sweep may remove a tombstone.
func (l Lifecycle) Forgotten(e *Entry) bool {
	return e.Tombstone && !l.Now().Before(e.ExpiresAt.Add(l.TTL))
}

// Refresh extends the expiry of a record that is read or put again. It reports
// whether the store should write the record. This is at most 24 times per TTL and
// once per hour, so that reads stay cheap.
func (l Lifecycle) Refresh(e *Entry) bool {
	until := l.Now().Add(l.TTL)
	if until.Sub(e.ExpiresAt) <= min(l.TTL/24, time.Hour) {
		return false
	}
	e.ExpiresAt = until
	return true
}

// Put returns the entry that an id has after a Put of rec: the old entry if it has
// the same content, its expiry refreshed, otherwise a new one. write reports
// whether the store must write it. old is nil if the id has no entry. ErrExists.
func (l Lifecycle) Put(old *Entry, rec offload.Record) (e Entry, write bool, err error) {
	switch {
	case l.Check(old) != nil:
		return Entry{Record: rec}, true, nil
	case old.Digest != rec.Digest:
		return Entry{}, false, offload.ErrExists
	}
	e = *old
	write = l.Refresh(&e)
	return e, write, nil
}

// List returns Store.List of the entries: the records that are not expired, oldest first, and then the errors.
func (l Lifecycle) List(entries iter.Seq2[Entry, error]) iter.Seq2[offload.Record, error] {
	return func(yield func(offload.Record, error) bool) {
		var recs []offload.Record
		var failed []error
		for e, err := range entries {
			switch {
			case err != nil:
				failed = append(failed, fmt.Errorf("list artifacts: %w", err))
			case !l.Expired(&e):
				recs = append(recs, e.Record)
			}
		}
		slices.SortFunc(recs, oldestFirst)
		for _, rec := range recs {
			if !yield(rec, nil) {
				return
			}
		}
		for _, err := range failed {
			if !yield(offload.Record{}, err) {
				return
			}
		}
	}
}

// CheckQuota returns ErrQuota if the used bytes and more bytes exceed the quota.
func (l Lifecycle) CheckQuota(used, more int64) error {
	if l.Quota <= 0 || used+more <= l.Quota {
		return nil
	}
	return fmt.Errorf("%w: %d of %d bytes are in use; delete artifacts and sweep, or raise the quota", offload.ErrQuota, used, l.Quota)
}
