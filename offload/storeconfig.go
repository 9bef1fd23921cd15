package offload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/tools"
)

// StoreConfig is what all stores have in common. The zero value works.
type StoreConfig struct {
	// TTL is how long an artifact is kept after it was put or last read; for as
	// long again a reader is told that it expired. Default 7 days.
	TTL time.Duration
	// Quota is how many bytes the blobs may have together; a Put that would
	// exceed it is ErrQuota. 0 means no limit. What expired counts until it is
	// swept, which an Offloader does before it takes no for an answer. Several
	// processes that put at the same moment may exceed it by what they put then.
	Quota int64
	// Now tells the time. Default time.Now.
	Now func() time.Time
}

const defaultTTL = 7 * 24 * time.Hour

func (c StoreConfig) withDefaults() StoreConfig {
	if c.TTL <= 0 {
		c.TTL = defaultTTL
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// now is in UTC and milliseconds, so that what Put returns is what Get reads.
func (c StoreConfig) now() time.Time { return c.Now().UTC().Truncate(time.Millisecond) }

// entry is the stored form of a record.
type entry struct {
	Record
	// Index is the content's (Index.MarshalBinary), in stores that keep it here.
	Index []byte `json:"index,omitempty"`
	// Tombstone marks what is left of an expired record once its bytes may go.
	Tombstone bool `json:"tombstone,omitempty"`
}

func decodeEntry(data []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(data, &e); err != nil {
		return entry{}, fmt.Errorf("decode record: %w", err)
	}
	return e, nil
}

// expired reports whether the entry only serves to say that it is.
func (e *entry) expired(now time.Time) bool { return e.Tombstone || !now.Before(e.ExpiresAt) }

// bury turns an expired entry into its tombstone.
func (e *entry) bury() {
	e.Tombstone = true
	e.Index, e.Summary, e.Metadata = nil, "", nil
}

// forgotten reports whether a tombstone has stood long enough.
func (c StoreConfig) forgotten(e *entry, now time.Time) bool {
	return e.Tombstone && !now.Before(e.ExpiresAt.Add(c.TTL))
}

// refresh moves the expiry on and reports whether that is worth a write: not
// more often than 24 times in a TTL, nor than once an hour, so that reading
// stays cheap.
func (c StoreConfig) refresh(e *entry, now time.Time) bool {
	until := now.Add(c.TTL)
	if until.Sub(e.ExpiresAt) <= min(c.TTL/24, time.Hour) {
		return false
	}
	e.ExpiresAt = until
	return true
}

// complete fills in what the bytes and the clock decide.
func (c StoreConfig) complete(rec *Record, x *index.Index, digest string) {
	rec.Size, rec.Chars, rec.Lines = x.Size(), x.TotalChars(), x.Lines()
	rec.Tokens = TokensOfRunes(rec.Chars)
	rec.Digest = digestPrefix + digest
	rec.CreatedAt = c.now()
	rec.ExpiresAt = rec.CreatedAt.Add(c.TTL)
}

const digestPrefix = "sha256:"

// overQuota returns ErrQuota if used bytes and more exceed the quota.
func (c StoreConfig) overQuota(used, more int64) error {
	if c.Quota <= 0 || used+more <= c.Quota {
		return nil
	}
	return fmt.Errorf("%w: %d of %d bytes are in use; delete artifacts and sweep, or raise the quota", ErrQuota, used, c.Quota)
}

// checkKey keeps out what is no token: it would become a path or a subject.
func checkKey(session, id string) error {
	switch {
	case !tools.IsToken(session):
		return fmt.Errorf("the session %q is not a token", session)
	case !tools.IsToken(id):
		return fmt.Errorf("the id %q is not a token", id)
	}
	return nil
}

// noSuch is for the readers: what cannot be a key names nothing.
func noSuch(session, id string) error {
	if err := checkKey(session, id); err != nil {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return nil
}

// oldestFirst orders records for List.
func oldestFirst(a, b Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.Session, b.Session), strings.Compare(a.ID, b.ID))
}
