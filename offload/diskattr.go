package offload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// recordAttr is the extended attribute of a new content that has its record,
// where the disk knows such: then a Put makes one file durable instead of two,
// and one name names both. If there is a file for the record, that one counts.
// It is made when the record changes, when the bytes were there already, which
// may have the record of another id, and by the next sweep: who copies a
// directory often leaves attributes behind.
const recordAttr = "user.stevedore.record"

// maxAttr is the size of record, in bytes, that ext4 has room for: all
// attributes of a file share a block of 4096.
const maxAttr = 3 << 10

// attach makes a record an attribute of its content, to be synced with it, and
// reports whether it is one now.
func (s *DiskStore) attach(w *writeback, e entry) bool {
	data, err := json.Marshal(e)
	if err != nil || !s.links || len(data) > maxAttr || setAttr(w.file, recordAttr, data) != nil {
		return false
	}
	w.changed()
	return true
}

// linkFirst gives a content that has its record with it its name, unless
// somebody has the name or the id.
func (s *DiskStore) linkFirst(e entry) bool {
	blob, _ := blobPath(e.Digest)
	return !s.hasFile(e) && s.dir.root.Link(blob, s.contentPath(e.Session, e.ID)) == nil
}

// hasFile reports whether there is something by the name of the record's file.
func (s *DiskStore) hasFile(e entry) bool {
	_, err := s.dir.root.Lstat(s.recordPath(e.Session, e.ID))
	return !errors.Is(err, fs.ErrNotExist)
}

// loadAttached reads a record from its content. fs.ErrNotExist: there is none,
// or it is that of another name of the same bytes. ErrCorrupt.
func (s *DiskStore) loadAttached(name string) (entry, error) {
	f, _, err := s.dir.open(name)
	if err != nil {
		return entry{}, err
	}
	data, err := getAttr(f, recordAttr)
	if err = errors.Join(err, f.Close()); err != nil {
		return entry{}, err
	}
	e, err := decodeEntry(data)
	if err != nil {
		return entry{}, fmt.Errorf("record in %q: %w: %w", name, ErrCorrupt, err)
	}
	if s.contentPath(e.Session, e.ID) != name {
		return entry{}, fs.ErrNotExist
	}
	return e, nil
}
