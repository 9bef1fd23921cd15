package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stevedore-bus/stevedore/offload/record"
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
func (s *Store) attach(w *writeback, e record.Entry) bool {
	data, err := json.Marshal(e)
	if err != nil || !s.links || len(data) > maxAttr || setAttr(w.file, recordAttr, data) != nil {
		return false
	}
	return true
}

// linkFirst gives a content that has its record with it its name, unless
// somebody has the name or the id, or the blob is another file by now: a sweep
// takes it from a Put that stood still for long, and the next Put of the same
// bytes makes one that has another record with it.
func (s *Store) linkFirst(e record.Entry, f *tempFile) bool {
	blob, _ := blobPath(e.Digest)
	name := s.contentPath(e.Session, e.ID)
	if has, err := s.hasFile(e); has || err != nil || s.dir.root.Link(blob, name) != nil {
		return false
	}
	ours, err := f.Stat()
	if linked, e := s.dir.root.Lstat(name); err == nil && e == nil && os.SameFile(ours, linked) {
		return true
	}
	s.dir.root.Remove(name) // if it stays, it is a name of the blob, as it is to be
	return false
}

// hasFile reports whether there is something by the name of the record's file.
func (s *Store) hasFile(e record.Entry) (bool, error) {
	_, err := s.dir.root.Lstat(s.recordPath(e.Session, e.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// loadAttached reads a record from its content. fs.ErrNotExist: there is none,
// or it is that of another name of the same bytes. ErrCorrupt.
func (s *Store) loadAttached(name string) (record.Entry, error) {
	f, _, err := s.dir.open(name)
	if err != nil {
		if info, e := s.dir.root.Lstat(name); e == nil && !info.Mode().IsRegular() {
			err = fs.ErrNotExist // a link, a pipe, a directory: not ours
		}
		return record.Entry{}, err
	}
	data, err := getAttr(f, recordAttr)
	if err = errors.Join(err, f.Close()); err != nil {
		return record.Entry{}, err
	}
	e, err := record.Decode(data)
	if err != nil {
		return record.Entry{}, fmt.Errorf("record in %q: %w", name, err)
	}
	if s.contentPath(e.Session, e.ID) != name {
		return record.Entry{}, fs.ErrNotExist
	}
	return e, nil
}
