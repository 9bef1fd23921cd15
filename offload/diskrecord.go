package offload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"
)

// record writes the record, unless there is one, and names the content.
func (s *DiskStore) record(ctx context.Context, rec Record, in *intake, staged string, kept time.Time) (Record, error) {
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
		return s.again(old, rec, in, kept)
	}
	name, blob := s.contentPath(rec.Session, rec.ID), blobDir+"/"+in.digest
	if err := s.free(name, blob); err != nil {
		return rec, err
	}
	record := s.recordPath(rec.Session, rec.ID)
	if err := s.dir.mkdir(path.Dir(record)); err != nil {
		return rec, err
	}
	err = s.dir.root.Rename(staged, record)
	if err == nil { // second, so that no kill leaves a name without a record
		err = s.show(name, blob)
	}
	if err == nil {
		err = s.settle(blob, record, name)
	}
	if err == nil {
		err = s.still(in.digest, kept)
	}
	if err != nil {
		return rec, errors.Join(err, s.drop(rec.Session, rec.ID))
	}
	return rec, nil
}

// again answers a Put of an id that has a record.
func (s *DiskStore) again(old entry, rec Record, in *intake, kept time.Time) (Record, error) {
	if old.Digest != rec.Digest {
		return rec, ErrExists
	}
	var err error
	if s.cfg.refresh(&old, s.cfg.now()) {
		err = s.save(old)
	}
	name, blob := s.contentPath(rec.Session, rec.ID), blobDir+"/"+in.digest
	return old.Record, errors.Join(err, s.show(name, blob), s.settle(blob, name), s.still(in.digest, kept))
}

// settle makes names durable.
func (s *DiskStore) settle(names ...string) error {
	syncs := make([]func() error, len(names))
	for i, name := range names {
		syncs[i] = func() error { return s.dir.syncDir(path.Dir(name)) }
	}
	return atOnce(syncs...)
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

// still looks, after a Put that took long, whether its blob is still there.
func (s *DiskStore) still(digest string, kept time.Time) error {
	if time.Since(kept) < s.recheck {
		return nil
	}
	if _, err := s.dir.root.Lstat(blobDir + "/" + digest); err != nil {
		return fmt.Errorf("a sweep removed the bytes before they were recorded, put them again: %w", err)
	}
	return nil
}

func (s *DiskStore) contentPath(session, id string) string {
	return diskName(session, s.folds) + "/" + diskName(id, s.folds) + ".md"
}

func (s *DiskStore) recordPath(session, id string) string {
	return recordDir + "/" + diskName(session, s.folds) + "/" + diskName(id, s.folds) + ".json"
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
func (s *DiskStore) stage(e entry) (temp string, err error) {
	data, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	return s.dir.stage(writer(data))
}

func writer(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}
