package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Sweep implements Store, and gives files to records that are attributes. Blobs
// are listed before records: a blob whose Put is not done is missed only if it is
// older than grace. If the Put has linked it by then, the content is in the
// session; if not, there is nothing to link, and the Put fails.
func (s *Store) Sweep(ctx context.Context, grace time.Duration) (offload.SweepReport, error) {
	var report offload.SweepReport
	err := errors.Join(s.sweepTemp(grace, &report), s.sweepBlobs(ctx, grace, &report))
	if err != nil {
		return report, fmt.Errorf("sweep artifacts: %w", err)
	}
	return report, nil
}

func (s *Store) sweepTemp(grace time.Duration, report *offload.SweepReport) error {
	entries, err := s.dir.names(tempDir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || s.life.Age(info.ModTime()) < grace {
			continue
		}
		if s.dir.root.Remove(tempDir+"/"+e.Name()) == nil {
			report.Orphans++
			report.Bytes += info.Size()
		}
	}
	return err
}

func (s *Store) sweepBlobs(ctx context.Context, grace time.Duration, report *offload.SweepReport) error {
	blobs, err := s.dir.names(blobDir)
	if err != nil {
		return err
	}
	there, named := map[string]bool{}, map[string]bool{}
	for _, b := range blobs {
		there[offload.DigestPrefix+b.Name()] = true
	}
	var lost, attached []record.Entry
	err = s.each(ctx, "", func(name string, e record.Entry) error {
		alive, err := s.sweepRecord(ctx, e, report)
		if !alive {
			return err
		}
		named[e.Digest] = true
		if !there[e.Digest] {
			lost = append(lost, e)
		}
		if name == s.contentPath(e.Session, e.ID) {
			attached = append(attached, e)
		}
		return err
	})
	if err != nil {
		// A record that cannot be read may name any blob.
		return fmt.Errorf("no content was removed, because a record could not be read: %w", err)
	}
	for _, b := range blobs {
		if !named[offload.DigestPrefix+b.Name()] {
			if err := s.sweepBlob(ctx, b.Name(), grace, report); err != nil {
				return err
			}
		}
	}
	for _, e := range lost {
		err = errors.Join(err, s.restore(ctx, e))
	}
	for _, e := range attached {
		if err = errors.Join(err, s.detach(ctx, e)); isDiskFull(err) {
			break
		}
	}
	return err
}

// restore gives a content its name as a blob again, if a crash took it and the
// session has the bytes. What cannot be restored is for Open to tell.
func (s *Store) restore(ctx context.Context, e record.Entry) error {
	blob, ok := blobPath(e.Digest)
	var x index.Index
	if err := x.UnmarshalBinary(e.Index); err != nil || !ok {
		return nil
	}
	unlock, err := s.dir.lock(ctx, path.Base(blob))
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.dir.root.Lstat(blob); !errors.Is(err, fs.ErrNotExist) {
		return err // a Put came first
	}
	name := s.contentPath(e.Session, e.ID)
	if sound, err := s.sound(name, &x); err != nil || !sound {
		return err
	}
	return s.place(name, blob)
}

// detach gives a record that is attached to its content a file, unless it has
// one by now.
func (s *Store) detach(ctx context.Context, e record.Entry) error {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if has, err := s.hasFile(e); has || err != nil {
		return err
	}
	e, err = s.loadAttached(s.contentPath(e.Session, e.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	return s.save(e)
}

// sweepRecord buries an expired record and forgets an old tombstone. On a full
// disk the content goes all the same, or the disk would stay full: the record
// stays as it is, and the next sweep buries it.
func (s *Store) sweepRecord(ctx context.Context, e record.Entry, report *offload.SweepReport) (alive bool, err error) {
	if !s.life.Expired(&e) {
		return true, nil
	} else if e.Tombstone && !s.life.Forgotten(&e) {
		return false, nil
	}
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return true, err
	}
	defer unlock()
	e, err = s.load(e.Session, e.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || !s.life.Expired(&e): // renewed meanwhile
		return true, err
	case s.life.Forgotten(&e):
		return false, s.dir.remove(s.recordPath(e.Session, e.ID))
	case e.Tombstone:
		return false, nil
	}
	has, err := s.hasFile(e)
	if err == nil && !has { // or it went with its content, and "expired" would be "not found"
		err = s.save(e)
	}
	if err != nil && !isDiskFull(err) {
		return true, err
	}
	if err := s.dir.remove(s.contentPath(e.Session, e.ID)); err != nil {
		return true, err
	}
	e.MakeTombstone()
	report.Records++
	if err := s.save(e); !isDiskFull(err) {
		return false, err
	}
	return false, nil
}

// sweepBlob removes a blob that is old enough, looking again under its lock: a
// Put that found the blob has renewed it.
func (s *Store) sweepBlob(ctx context.Context, digest string, grace time.Duration, report *offload.SweepReport) error {
	unlock, err := s.dir.lock(ctx, digest)
	if err != nil {
		return err
	}
	defer unlock()
	name := blobDir + "/" + digest
	info, err := s.dir.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || s.life.Age(info.ModTime()) < grace {
		return err
	}
	if err := s.dir.remove(name); err != nil {
		return err
	}
	report.Blobs++
	report.Bytes += info.Size()
	return nil
}
