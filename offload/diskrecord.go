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

// record gives a record and its content their names, unless there is a record
// of that id. It is attached to a content that just became a blob, or in a staged
// file, or gets one.
func (s *DiskStore) record(ctx context.Context, e entry, attached, staged *tempFile) (Record, error) {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return e.Record, err
	}
	defer unlock()
	name, record := s.contentPath(e.Session, e.ID), s.recordPath(e.Session, e.ID)
	if err := s.dir.mkdir(path.Dir(record)); err != nil {
		return e.Record, err
	}
	if attached != nil && s.linkFirst(e, attached) {
		if err := s.dir.syncDir(path.Dir(name)); err != nil {
			return e.Record, errors.Join(err, s.drop(e.Session, e.ID))
		}
		return e.Record, nil
	}
	old, taken, err := s.current(e.Record)
	if err != nil {
		return e.Record, err
	}
	if taken {
		return s.again(old, e.Record)
	}
	blob, _ := blobPath(e.Digest)
	if err := s.free(name, blob); err != nil {
		return e.Record, err
	}
	if staged == nil {
		if staged, err = s.stage(e); err != nil {
			return e.Record, err
		}
		defer staged.discard()
	}
	err = staged.become(record)
	if err == nil { // second, so that no kill leaves a name without a record
		err = s.show(name, blob)
	}
	if err == nil {
		err = s.dir.syncDir(path.Dir(name))
	}
	if err != nil {
		return e.Record, errors.Join(err, s.drop(e.Session, e.ID))
	}
	return e.Record, nil
}

// again answers a Put of an id that has a record. An attached one gets a file
// first: the blob that show puts in the content's place may be another file,
// which has another record with it, or none.
func (s *DiskStore) again(old entry, rec Record) (Record, error) {
	if old.Digest != rec.Digest {
		return rec, ErrExists
	}
	has, err := s.hasFile(old)
	if err != nil {
		return old.Record, err
	}
	if s.cfg.refresh(&old, s.cfg.now()) || !has {
		if err := s.save(old); err != nil {
			return old.Record, err
		}
	}
	name := s.contentPath(rec.Session, rec.ID)
	blob, _ := blobPath(rec.Digest)
	return old.Record, errors.Join(s.show(name, blob), s.dir.syncDir(path.Dir(name)))
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

// Delete implements Store.
func (s *DiskStore) Delete(ctx context.Context, session, id string) error {
	if err := s.delete(ctx, session, id); err != nil {
		return fmt.Errorf("delete artifact %q: %w", id, err)
	}
	return nil
}

func (s *DiskStore) delete(ctx context.Context, session, id string) error {
	if err := noSuch(session, id); err != nil {
		return err
	}
	unlock, err := s.dir.lock(ctx, session+"/"+id)
	if err != nil {
		return err
	}
	defer unlock()
	e, err := s.load(session, id)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && e.Tombstone:
		return ErrNotFound
	case err != nil && !errors.Is(err, ErrCorrupt):
		return err // whose file it is, nobody knows
	}
	return s.drop(session, id)
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
	return diskName(session, s.folds) + "/" + diskName(id, s.folds) + contentSuffix
}

func (s *DiskStore) recordPath(session, id string) string {
	return diskName(session, s.folds) + "/" + recordPrefix + diskName(id, s.folds) + recordSuffix
}

// A record is hidden beside its content, by a name that nobody else gives.
const (
	recordPrefix  = "."
	recordSuffix  = ".artifact.json"
	contentSuffix = ".md"
)

// blobPath is where the content of a digest is; ok says whether it is one.
func blobPath(digest string) (name string, ok bool) {
	sum, ok := strings.CutPrefix(digest, digestPrefix)
	return blobDir + "/" + sum, ok && !strings.Contains(sum, "/")
}

// load reads a record. fs.ErrNotExist, ErrCorrupt.
func (s *DiskStore) load(session, id string) (entry, error) {
	record := s.recordPath(session, id)
	e, err := s.loadFile(record)
	if errors.Is(err, fs.ErrNotExist) {
		e, err = s.loadAttached(s.contentPath(session, id))
	}
	if errors.Is(err, fs.ErrNotExist) { // a file may have come between the two looks
		e, err = s.loadFile(record)
	}
	if err == nil && s.recordPath(e.Session, e.ID) != record {
		return entry{}, fs.ErrNotExist // of a session whose directory was copied
	}
	return e, err
}

func (s *DiskStore) loadFile(name string) (entry, error) {
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
