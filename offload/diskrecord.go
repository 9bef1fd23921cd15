package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// record writes the record, unless there is one, and names the content.
func (s *DiskStore) record(ctx context.Context, rec Record, in *intake, staged *tempFile) (Record, error) {
	unlock, err := s.dir.lock(ctx, rec.Session+"/"+rec.ID)
	if err != nil {
		return rec, err
	}
	defer unlock()
	old, taken, err := s.current(rec)
	if err != nil {
		return rec, err
	}
	if taken {
		return s.again(old, rec, in)
	}
	name, blob := s.contentPath(rec.Session, rec.ID), blobDir+"/"+in.digest
	if err := s.free(name, blob); err != nil {
		return rec, err
	}
	record := s.recordPath(rec.Session, rec.ID)
	if err := s.dir.mkdir(path.Dir(record)); err != nil {
		return rec, err
	}
	err = staged.become(record)
	if err == nil { // second, so that no kill leaves a name without a record
		err = s.show(name, blob)
	}
	if err == nil {
		err = s.dir.syncDir(path.Dir(name))
	}
	if err != nil {
		return rec, errors.Join(err, s.drop(rec.Session, rec.ID))
	}
	return rec, nil
}

// again answers a Put of an id that has a record.
func (s *DiskStore) again(old entry, rec Record, in *intake) (Record, error) {
	if old.Digest != rec.Digest {
		return rec, ErrExists
	}
	var err error
	if s.cfg.refresh(&old, s.cfg.now()) {
		err = s.save(old)
	}
	name, blob := s.contentPath(rec.Session, rec.ID), blobDir+"/"+in.digest
	return old.Record, errors.Join(err, s.show(name, blob), s.dir.syncDir(path.Dir(name)))
}

// current returns the record that takes the id of rec. What is left of one
// that expired or rotted is cleared away.
func (s *DiskStore) current(rec Record) (old entry, taken bool, err error) {
	old, err = s.load(rec.Session, rec.ID)
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

func (s *DiskStore) contentPath(session, id string) string {
	return diskName(session, s.folds) + "/" + diskName(id, s.folds) + ".md"
}

func (s *DiskStore) recordPath(session, id string) string {
	return diskName(session, s.folds) + "/" + recordPrefix + diskName(id, s.folds) + recordSuffix
}

// A record is hidden beside its content, by a name that nobody else gives.
const (
	recordPrefix = "."
	recordSuffix = ".artifact.json"
)

// blobPath is where the content of a digest is; ok says whether it is one.
func blobPath(digest string) (name string, ok bool) {
	sum, ok := strings.CutPrefix(digest, digestPrefix)
	return blobDir + "/" + sum, ok && !strings.Contains(sum, "/")
}

// load reads a record. fs.ErrNotExist, ErrCorrupt.
func (s *DiskStore) load(session, id string) (entry, error) {
	return s.loadPath(s.recordPath(session, id))
}

func (s *DiskStore) loadPath(name string) (entry, error) {
	f, _, err := s.dir.open(name)
	if err != nil {
		return entry{}, err
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return entry{}, err
	}
	e, err := decodeEntry(data)
	if err != nil {
		return entry{}, fmt.Errorf("record %q: %w: %w", name, ErrCorrupt, err)
	}
	return e, nil
}

func (s *DiskStore) save(e entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.dir.replace(s.recordPath(e.Session, e.ID), writer(data))
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
