package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// record gives a record and its content their names, unless there is a record
// of that id. It is attached to a content that just became a blob, or in a staged
// file, or gets one.
func (s *Store) addRecord(ctx context.Context, e record.Entry, attached, staged *tempFile) (offload.Record, error) {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return e.Record, err
	}
	defer unlock()
	name, recordName := s.contentPath(e.Session, e.ID), s.recordPath(e.Session, e.ID)
	if err := s.dir.mkdir(path.Dir(recordName)); err != nil {
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
	err = staged.become(recordName)
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
func (s *Store) again(old record.Entry, rec offload.Record) (offload.Record, error) {
	if old.Digest != rec.Digest {
		return rec, offload.ErrExists
	}
	has, err := s.hasFile(old)
	if err != nil {
		return old.Record, err
	}
	if s.life.Refresh(&old) || !has {
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
func (s *Store) current(rec offload.Record) (old record.Entry, taken bool, err error) {
	old, err = s.load(rec.Session, rec.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return old, false, nil
	case err == nil && !s.life.Expired(&old):
		return old, true, nil
	case err == nil || errors.Is(err, offload.ErrCorrupt):
		return old, false, s.drop(rec.Session, rec.ID)
	}
	return old, false, err
}

// Delete implements Store.
func (s *Store) Delete(ctx context.Context, session, id string) error {
	if err := s.delete(ctx, session, id); err != nil {
		return fmt.Errorf("delete artifact %q: %w", id, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, session, id string) error {
	if err := record.CheckLookup(session, id); err != nil {
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
		return offload.ErrNotFound
	case err != nil && !errors.Is(err, offload.ErrCorrupt):
		return err // whose file it is, nobody knows
	}
	return s.drop(session, id)
}

// drop removes a record and the name of its content, the name first: a crash
// between the two leaves a record, which can be dropped again, and no file that
// nobody answers for.
func (s *Store) drop(session, id string) error {
	if err := s.dir.remove(s.contentPath(session, id)); err != nil {
		return err
	}
	return s.dir.remove(s.recordPath(session, id))
}

func (s *Store) contentPath(session, id string) string {
	return diskName(session, s.folds) + "/" + diskName(id, s.folds) + contentSuffix
}

func (s *Store) recordPath(session, id string) string {
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
	sum, ok := strings.CutPrefix(digest, offload.DigestPrefix)
	return blobDir + "/" + sum, ok && !strings.Contains(sum, "/")
}

// load reads a record. fs.ErrNotExist, ErrCorrupt.
func (s *Store) load(session, id string) (record.Entry, error) {
	name := s.recordPath(session, id)
	e, err := s.loadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		e, err = s.loadAttached(s.contentPath(session, id))
	}
	if errors.Is(err, fs.ErrNotExist) { // a file may have come between the two looks
		e, err = s.loadFile(name)
	}
	if err == nil && s.recordPath(e.Session, e.ID) != name {
		return record.Entry{}, fs.ErrNotExist // of a session whose directory was copied
	}
	return e, err
}

func (s *Store) loadFile(name string) (record.Entry, error) {
	f, _, err := s.dir.open(name)
	if err != nil {
		return record.Entry{}, err
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return record.Entry{}, err
	}
	e, err := record.Decode(data)
	if err != nil {
		return record.Entry{}, fmt.Errorf("record %q: %w", name, err)
	}
	return e, nil
}

func (s *Store) save(e record.Entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.dir.replace(s.recordPath(e.Session, e.ID), writer(data))
}

// stage writes an record.Entry to a temporary file.
func (s *Store) stage(e record.Entry) (*tempFile, error) {
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
