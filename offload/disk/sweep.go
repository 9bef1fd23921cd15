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

// Sweep implements offload.Store. It also writes attached records to files. It lists
// blobs before records, so it removes the blob of a running Put only if the blob is older
// than grace. If the Put has linked the blob before, the session has the content;
// otherwise the link fails, and so does the Put.
func (s *Store) Sweep(ctx context.Context, grace time.Duration) (offload.SweepReport, error) {
	var report offload.SweepReport
	err := errors.Join(s.sweepTemp(grace, &report), s.sweepBlobs(ctx, grace, &report))
	if err != nil {
		return report, fmt.Errorf("sweep artifacts: %w", err)
	}
	return report, nil
}

func (s *Store) sweepTemp(grace time.Duration, report *offload.SweepReport) error {
	entries, err := s.dir.list(tempDir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || s.life.Age(info.ModTime()) < grace {
			continue
		}
		if s.dir.Root.Remove(tempDir+"/"+e.Name()) == nil {
			report.Orphans++
			report.Bytes += info.Size()
		}
	}
	return err
}

func (s *Store) sweepBlobs(ctx context.Context, grace time.Duration, report *offload.SweepReport) error {
	blobs, err := s.dir.list(blobDir)
	if err != nil {
		return err
	}
	stored, used := map[string]bool{}, map[string]bool{}
	for _, b := range blobs {
		stored[offload.DigestPrefix+b.Name()] = true
	}
	var lost, attached []record.Entry
	err = s.each(ctx, "", func(name string, e record.Entry) error {
		alive, err := s.sweepRecord(ctx, e, report)
		if !alive {
			return err
		}
		used[e.Digest] = true
		if !stored[e.Digest] {
			lost = append(lost, e)
		}
		if name == s.contentPath(e.Session, e.ID) {
			attached = append(attached, e)
		}
		return err
	})
	if err != nil {
		// An unreadable record may use any blob.
		return fmt.Errorf("no content was removed, because a record is unreadable: %w", err)
	}
	for _, b := range blobs {
		if !used[offload.DigestPrefix+b.Name()] {
			if err := s.sweepBlob(ctx, b.Name(), grace, report); err != nil {
				return err
			}
		}
	}
	for _, e := range lost {
		err = errors.Join(err, s.restoreBlob(ctx, e))
	}
	for _, e := range attached {
		if err = errors.Join(err, s.writeAttached(ctx, e)); isDiskFull(err) {
			break
		}
	}
	return err
}

// restoreBlob links a content as a blob again, if a power loss removed the blob. If the
// session does not have the content either, Open reports that.
func (s *Store) restoreBlob(ctx context.Context, e record.Entry) error {
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
	if _, err := s.dir.Root.Lstat(blob); !errors.Is(err, fs.ErrNotExist) {
		return err // a Put has created it
	}
	name := s.contentPath(e.Session, e.ID)
	if intact, err := s.isIntact(name, &x); err != nil || !intact {
		return err
	}
	return s.linkOrCopy(name, blob)
}

// writeAttached writes an attached record to a file, unless the file exists.
func (s *Store) writeAttached(ctx context.Context, e record.Entry) error {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return err
	}
	defer unlock()
	if hasFile, err := s.hasRecordFile(e); hasFile || err != nil {
		return err
	}
	e, err = s.loadAttached(s.contentPath(e.Session, e.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was deleted
	}
	if err != nil {
		return err
	}
	return s.save(e)
}

// sweepRecord turns an expired record into a tombstone and removes an old tombstone. On a
// full disk it removes the content although it cannot write the tombstone, because the
// disk would stay full otherwise. The next sweep writes the tombstone.
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
	case err != nil || !s.life.Expired(&e): // refreshed in between
		return true, err
	case s.life.Forgotten(&e):
		return false, s.dir.remove(s.recordPath(e.Session, e.ID))
	case e.Tombstone:
		return false, nil
	}
	hasFile, err := s.hasRecordFile(e)
	if err == nil && !hasFile { // otherwise the record would be removed with its content
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

// sweepBlob removes a blob that is older than grace. It checks the age under the lock,
// because a Put may have marked the blob as young.
func (s *Store) sweepBlob(ctx context.Context, digest string, grace time.Duration, report *offload.SweepReport) error {
	unlock, err := s.dir.lock(ctx, digest)
	if err != nil {
		return err
	}
	defer unlock()
	name := blobDir + "/" + digest
	info, err := s.dir.Root.Lstat(name)
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
