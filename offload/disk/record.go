package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/record"
	"github.com/stevedore-bus/stevedore/state/durable"
)

// addRecord renames the file to the record, unless the id has one, and links the content.
func (s *tree) addRecord(ctx context.Context, e record.Entry, file *durable.Temp) (offload.Record, error) {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return e.Record, err
	}
	defer unlock()
	name, recordName := s.contentPath(e.Session, e.ID), s.recordPath(e.Session, e.ID)
	blob := blobDir + "/" + strings.TrimPrefix(e.Digest, offload.DigestPrefix)
	if err := s.dir.mkdir(path.Dir(name)); err != nil {
		return e.Record, err
	}
	old, exists, err := s.existing(e.Record)
	if err != nil {
		return e.Record, err
	}
	if exists {
		e, write, err := s.life.Put(&old, e.Record)
		if err == nil && write {
			err = s.save(e)
		}
		if err == nil {
			err = errors.Join(s.linkContent(blob, name), s.dir.Sync(path.Dir(name)))
		}
		return e.Record, err
	}
	if err := s.checkFree(name); err != nil {
		return e.Record, err
	}
	if err = file.Rename(recordName); err == nil { // first, so that a crash leaves no content file without a record
		err = s.linkContent(blob, name)
	}
	if err == nil {
		err = s.dir.Sync(path.Dir(name))
	}
	if err != nil {
		return e.Record, errors.Join(err, s.removeArtifact(e.Session, e.ID))
	}
	return e.Record, nil
}

// existing returns the entry of the id of rec. It removes an expired or damaged one.
func (s *tree) existing(rec offload.Record) (old record.Entry, exists bool, err error) {
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

// checkFree returns ErrExists if the store did not write the file of an id without a
// record. The files of the store are read-only.
func (s *tree) checkFree(name string) error {
	info, err := s.dir.Root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Mode().Perm()&0o200 != 0) {
		err = fmt.Errorf("%w: %q was not written by this store; move it away", offload.ErrExists, name)
	}
	return err
}

// linkContent makes name a link to the blob, or a copy if the file system has no links.
func (s *tree) linkContent(blob, name string) error {
	if s.links {
		have, err := s.dir.Root.Lstat(name)
		if want, e := s.dir.Root.Lstat(blob); err == nil && e == nil && os.SameFile(have, want) {
			return nil
		}
		temp := tempName()
		if err = s.dir.Root.Link(blob, temp); err == nil {
			if err = s.dir.Root.Rename(temp, name); err != nil {
				err = errors.Join(err, s.dir.Root.Remove(temp))
			}
			return err
		}
		if !cannotLink(err) {
			return err
		}
	}
	f, _, err := s.dir.open(blob)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.dir.replace(name, contentMode, func(w io.Writer) error { _, err := io.Copy(w, f); return err })
}

func (s *tree) delete(ctx context.Context, session, id string) error {
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
func (s *tree) removeArtifact(session, id string) error {
	if err := s.dir.remove(s.contentPath(session, id)); err != nil {
		return err
	}
	return s.dir.remove(s.recordPath(session, id))
}

// load reads a record. It returns fs.ErrNotExist or ErrCorrupt.
func (s *tree) load(session, id string) (record.Entry, error) {
	name := s.recordPath(session, id)
	e, err := s.loadFile(name)
	if err == nil && s.recordPath(e.Session, e.ID) != name {
		return record.Entry{}, fs.ErrNotExist // a copy of another session's directory
	}
	return e, err
}

func (s *tree) loadFile(name string) (record.Entry, error) {
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

// save durably replaces the record of an id.
func (s *tree) save(e record.Entry) error {
	name := s.recordPath(e.Session, e.ID)
	if err := s.dir.replace(name, 0o600, encodeTo(e)); err != nil {
		return err
	}
	return s.dir.Sync(path.Dir(name))
}

func encodeTo(e record.Entry) func(io.Writer) error {
	return func(w io.Writer) error {
		data, err := json.Marshal(e)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
}
