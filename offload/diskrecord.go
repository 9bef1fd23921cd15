package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// record writes the record, unless there is one, and names the content.
func (s *DiskStore) record(ctx context.Context, rec Record, in *intake, staged *tempFile) (Record, error) {
	dir, err := s.dir.make(diskName(rec.Session, s.folds))
	if err != nil {
		return rec, err
	}
	defer dir.Close()
	unlock, err := s.dir.lock(ctx, rec.Session+"/"+rec.ID)
	if err != nil {
		return rec, err
	}
	defer unlock()
	old, taken, err := s.current(rec, dir)
	if err != nil {
		return rec, err
	}
	if taken {
		return s.again(old, rec, in, dir)
	}
	name := s.contentName(rec.ID)
	if err := s.free(name, dir, in.digest); err != nil {
		return rec, err
	}
	err = staged.become(s.recordName(rec.ID), dir)
	if err == nil { // second, so that no kill leaves a name without a record
		err = s.show(name, dir, in.digest)
	}
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		return rec, errors.Join(err, s.drop(rec.Session, rec.ID))
	}
	return rec, nil
}

// again answers a Put of an id that has a record.
func (s *DiskStore) again(old entry, rec Record, in *intake, dir folder) (Record, error) {
	if old.Digest != rec.Digest {
		return rec, ErrExists
	}
	var err error
	if s.cfg.refresh(&old, s.cfg.now()) {
		err = s.save(old)
	}
	return old.Record, errors.Join(err, s.show(s.contentName(rec.ID), dir, in.digest), dir.Sync())
}

// current returns the record that takes the id of rec. What is left of one
// that expired or rotted is cleared away.
func (s *DiskStore) current(rec Record, dir folder) (old entry, taken bool, err error) {
	old, err = loadFrom(s.recordName(rec.ID), dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return old, false, nil
	case err == nil && !old.expired(s.cfg.now()):
		return old, true, nil
	case err == nil || errors.Is(err, ErrCorrupt):
		return old, false, s.drop(rec.Session, rec.ID)
	}
	return old, false, err
}

// drop removes a record and the name of its content, the name first: a crash
// between the two leaves a record, which can be dropped again, and no file that
// nobody answers for.
func (s *DiskStore) drop(session, id string) error {
	if err := s.dir.remove(s.contentPath(session, id)); err != nil {
		return err
	}
	return s.dir.remove(s.recordPath(session, id))
}

func (s *DiskStore) contentName(id string) string { return diskName(id, s.folds) + ".md" }

func (s *DiskStore) contentPath(session, id string) string {
	return diskName(session, s.folds) + "/" + s.contentName(id)
}

// A record is hidden beside its content, by a name that nobody else gives.
const (
	recordPrefix = "."
	recordSuffix = ".artifact.json"
)

func (s *DiskStore) recordName(id string) string {
	return recordPrefix + diskName(id, s.folds) + recordSuffix
}

func (s *DiskStore) recordPath(session, id string) string {
	return diskName(session, s.folds) + "/" + s.recordName(id)
}

// blobName is the name of the content of a digest; ok says whether it is one.
func blobName(digest string) (name string, ok bool) {
	name, ok = strings.CutPrefix(digest, digestPrefix)
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// load reads a record. fs.ErrNotExist, ErrCorrupt.
func (s *DiskStore) load(session, id string) (entry, error) {
	dir, err := s.dir.folder(diskName(session, s.folds))
	if err != nil {
		return entry{}, err
	}
	defer dir.Close()
	return loadFrom(s.recordName(id), dir)
}

func loadFrom(name string, dir folder) (entry, error) {
	f, _, err := dir.open(name)
	if err != nil {
		return entry{}, err
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return entry{}, err
	}
	e, err := decodeEntry(data)
	if err != nil {
		return entry{}, fmt.Errorf("record %q: %w: %w", f.Name(), ErrCorrupt, err)
	}
	return e, nil
}

func (s *DiskStore) save(e entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	dir, err := s.dir.make(diskName(e.Session, s.folds))
	if err != nil {
		return err
	}
	defer dir.Close()
	return s.dir.replace(s.recordName(e.ID), dir, writer(data))
}

// stage writes an entry to a temporary file.
func (s *DiskStore) stage(e entry) (*tempFile, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return s.dir.stage(writer(data))
}

func writer(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}
