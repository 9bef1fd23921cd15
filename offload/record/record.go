// Package record contains the parts that all artifact stores share. These are the
// stored form of a record, its life cycle (expiry, tombstones, quota), and Ingest, which
// reads, hashes and indexes a content in one pass.
//
// The package is public because an offload.Store outside of this module needs all
// of it to pass the conformance suite in offload/storetest. A store of entries and blobs does this:
//
//   - Put: CheckKey; Ingest, whose sink writes the blob; Lifecycle.Complete; summarize with
//     NewContent of the blob; CheckQuota; Lifecycle.Put with the stored entry, if there is one. Then
//     the blob, its index and the entry become durable, in this order.
//   - Get: CheckLookup, Lifecycle.Check and Refresh; store the entry if Refresh says so.
//   - Open: Lifecycle.Check, and NewContent of the blob and its index.
//   - List: Lifecycle.List of the entries.
//   - Sweep: an expired entry becomes a tombstone (MakeTombstone), a Forgotten one is removed, and
//     so are blobs that no entry names and whose Lifecycle.Age is at least grace.
package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
	"github.com/stevedore-bus/stevedore/tools"
)

// Entry is the stored form of a record, as JSON.
type Entry struct {
	offload.Record
	// Index is the content's index (Index.MarshalBinary), if the store keeps it in
	// the record.
	Index []byte `json:"index,omitempty"`
	// Tombstone marks what remains of an expired record: its content may be removed.
	Tombstone bool `json:"tombstone,omitempty"`
}

// Decode decodes a stored entry. It returns ErrCorrupt if data is not JSON.
func Decode(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("decode record: %w: %w", offload.ErrCorrupt, err)
	}
	return e, nil
}

// MakeTombstone turns an expired entry into its tombstone.
func (e *Entry) MakeTombstone() {
	e.Tombstone = true
	e.Index, e.Summary, e.Metadata = nil, "", nil
}

// CheckKey returns an error unless session and id are tokens. A store may use
// tokens in file names and subjects. Put calls it.
func CheckKey(session, id string) error {
	switch {
	case !tools.IsToken(session):
		return fmt.Errorf("the session %q is not a token", session)
	case !tools.IsToken(id):
		return fmt.Errorf("the id %q is not a token", id)
	}
	return nil
}

// CheckLookup is CheckKey for Get and Delete: it returns ErrNotFound, because no
// artifact has an invalid key.
func CheckLookup(session, id string) error {
	if err := CheckKey(session, id); err != nil {
		return fmt.Errorf("%w: %w", offload.ErrNotFound, err)
	}
	return nil
}

// oldestFirst compares records for List.
func oldestFirst(a, b offload.Record) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.Session, b.Session), strings.Compare(a.ID, b.ID))
}

// NewContent returns the content in src that x describes. It checks each block that
// it reads. Closing it closes src, if src is an io.Closer.
func NewContent(src io.ReaderAt, x *index.Index) offload.Content { return blocks.NewContent(src, x) }
