package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// addRecord links the content and stores the record, unless the id has a record. The
// record is attached to a new blob, or in recordFile, or addRecord writes a file.
func (s *Store) addRecord(ctx context.Context, e record.Entry, attached, recordFile *tempFile) (offload.Record, error) {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return e.Record, err
	}
	defer unlock()
	name, recordName := s.contentPath(e.Session, e.ID), s.recordPath(e.Session, e.ID)
	if err := s.dir.mkdir(path.Dir(recordName)); err != nil {
		return e.Record, err
	}
	if attached != nil && s.linkAttached(e, attached) {
		if err := s.dir.Sync(path.Dir(name)); err != nil {
			return e.Record, errors.Join(err, s.removeArtifact(e.Session, e.ID))
		}
		return e.Record, nil
	}
	old, exists, err := s.existing(e.Record)
	if err != nil {
		return e.Record, err
	}
	if exists {
		return s.putAgain(old, e.Record)
	}
	blob, _ := blobPath(e.Digest)
	if err := s.ensureFree(name, blob); err != nil {
		return e.Record, err
	}
	if recordFile == nil {
		if recordFile, err = s.writeTempRecord(e); err != nil {
			return e.Record, err
		}
		defer recordFile.Discard()
	}
	err = s.dir.retryRename(recordName, recordFile.Rename)
	if err == nil { // after the record, so that a crash leaves no content file without one
		err = s.linkArtifact(name, blob)
	}
	if err == nil {
		err = s.dir.Sync(path.Dir(name))
	}
	if err != nil {
		return e.Record, errors.Join(err, s.removeArtifact(e.Session, e.ID))
	}
	return e.Record, nil
}

// putAgain completes a Put of an id that has a record. It writes an attached record to a
// file first, because linkArtifact may replace the content file by a blob to which
// another record or none is attached.
func (s *Store) putAgain(old record.Entry, rec offload.Record) (offload.Record, error) {
	e, write, err := s.life.Put(&old, rec)
	if err != nil {
		return rec, err
	}
	hasFile, err := s.hasRecordFile(e)
	if err != nil {
		return e.Record, err
	}
	if write || !hasFile {
		if err := s.save(e); err != nil {
			return e.Record, err
		}
	}
	name := s.contentPath(rec.Session, rec.ID)
	blob, _ := blobPath(rec.Digest)
	return e.Record, errors.Join(s.linkArtifact(name, blob), s.dir.Sync(path.Dir(name)))
}

// existing returns the entry of the id of rec. It removes an expired or damaged one.
func (s *Store) existing(rec offload.Record) (old record.Entry, exists bool, err error) {
	old, err = s.load(rec.Session, rec.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return old, false, nil
	case err == nil && !s.life.Expired(&old):
		return old, true, nil
	case err == nil || errors.Is(err, offload.ErrCorrupt):
		return old, false, s.removeArtifact(rec.Session, rec.ID)
	}
	return old, false, err
}

// Delete implements offload.Store.
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
		return err // the file may not belong to the store
	}
	return s.removeArtifact(session, id)
}

// removeArtifact removes the content file and then the record. A crash between the two
// leaves a record, which can be deleted, and no content file without a record.
func (s *Store) removeArtifact(session, id string) error {
	if err := s.dir.remove(s.contentPath(session, id)); err != nil {
		return err
	}
	return s.dir.remove(s.recordPath(session, id))
}

// load reads a record. It returns fs.ErrNotExist or ErrCorrupt.
func (s *Store) load(session, id string) (record.Entry, error) {
	name := s.recordPath(session, id)
	e, err := s.loadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		e, err = s.loadAttached(s.contentPath(session, id))
	}
	if errors.Is(err, fs.ErrNotExist) { // another process may have written the file in between
		e, err = s.loadFile(name)
	}
	if err == nil && s.recordPath(e.Session, e.ID) != name {
		return record.Entry{}, fs.ErrNotExist // a copy of another session's directory
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

func (s *Store) writeTempRecord(e record.Entry) (*tempFile, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return s.dir.writeTemp(writer(data))
}

func writer(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}
