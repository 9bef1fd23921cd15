package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stevedore-bus/stevedore/offload/record"
)

// recordAttr is the extended attribute that holds the record of a new content. With it,
// a Put syncs one file instead of two. If a record file exists, it overrides the
// attribute. The store writes a record file when the record changes, when the blob
// existed before (another id's record may be attached to it), and at the next sweep,
// because copies of a directory often lose attributes.
const recordAttr = "user.stevedore.record"

// maxAttr is the maximum size of an attached record in bytes. On ext4, all attributes
// of a file share a block of 4096 bytes.
const maxAttr = 3 << 10

// attach attaches a record to its content, which is not synced yet. It reports whether
// that succeeded.
func (s *Store) attach(w *writeback, e record.Entry) bool {
	data, err := json.Marshal(e)
	return err == nil && s.links && len(data) <= maxAttr && setAttr(w.file, recordAttr, data) == nil
}

// linkAttached links a new blob with an attached record as the content file. It reports
// false if the name or the id exists, or if the blob is another file now: a sweep
// removed it during a slow Put, and another Put of the same bytes created it again with
// another record.
func (s *Store) linkAttached(e record.Entry, f *tempFile) bool {
	blob, _ := blobPath(e.Digest)
	name := s.contentPath(e.Session, e.ID)
	if hasFile, err := s.hasRecordFile(e); hasFile || err != nil || s.dir.Root.Link(blob, name) != nil {
		return false
	}
	ours, err := f.Stat()
	if linked, e := s.dir.Root.Lstat(name); err == nil && e == nil && os.SameFile(ours, linked) {
		return true
	}
	s.dir.Root.Remove(name) // if this fails, the name is a link to the right blob
	return false
}

// hasRecordFile reports whether the name of the record file exists.
func (s *Store) hasRecordFile(e record.Entry) (bool, error) {
	_, err := s.dir.Root.Lstat(s.recordPath(e.Session, e.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// loadAttached reads the record that is attached to a content file. It returns
// fs.ErrNotExist if there is none or if it belongs to another name of the file, or
// ErrCorrupt.
func (s *Store) loadAttached(name string) (record.Entry, error) {
	f, _, err := s.dir.open(name)
	if err != nil {
		if info, e := s.dir.Root.Lstat(name); e == nil && !info.Mode().IsRegular() {
			err = fs.ErrNotExist // a link, pipe or directory does not belong to the store
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
