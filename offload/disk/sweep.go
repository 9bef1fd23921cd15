package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/record"
)

func (s *tree) sweepTemp(grace time.Duration, report *offload.SweepReport) error {
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

func (s *tree) sweepBlobs(ctx context.Context, grace time.Duration, report *offload.SweepReport) error {
	blobs, err := s.dir.list(blobDir)
	if err != nil {
		return err
	}
	used, stored := map[string]bool{}, map[string]bool{}
	for _, b := range blobs {
		stored[b.Name()] = true
	}
	for e, failed := range s.entries(ctx, "") {
		alive := false
		if failed == nil {
			alive, failed = s.sweepRecord(ctx, e, report)
		}
		if digest := strings.TrimPrefix(e.Digest, offload.DigestPrefix); failed == nil && !alive && stored[digest] && s.isLast(digest) {
			failed = s.sweepBlob(ctx, digest, grace, report) // the process may end before the sweep does
		}
		if alive {
			used[e.Digest] = true
		}
		err = errors.Join(err, failed)
	}
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
	return nil
}

// sweepRecord turns an expired record into a tombstone and removes an old tombstone. On a
// full disk it removes the content although it cannot write the tombstone, because the
// disk would stay full otherwise. The next sweep writes the tombstone.
func (s *tree) sweepRecord(ctx context.Context, e record.Entry, report *offload.SweepReport) (alive bool, err error) {
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

// isLast reports whether no session has a link to a blob. Without links, each has a copy.
func (s *tree) isLast(digest string) bool {
	info, err := s.dir.Root.Lstat(blobDir + "/" + digest)
	return err == nil && links(info) == 1
}

// sweepBlob removes a blob that is older than grace. It checks the age under the lock,
// because a Put may have marked the blob as young.
func (s *tree) sweepBlob(ctx context.Context, digest string, grace time.Duration, report *offload.SweepReport) error {
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
