package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// lookup reads a record that is not expired.
func (s *tree) lookup(session, id string) (record.Entry, error) {
	if err := record.CheckLookup(session, id); err != nil {
		return record.Entry{}, err
	}
	e, err := s.load(session, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return record.Entry{}, offload.ErrNotFound
	case err != nil:
		return record.Entry{}, err
	case s.life.Expired(&e):
		return record.Entry{}, offload.ErrExpired
	}
	return e, nil
}

// refresh writes the new expiry of a record. If the directory is read-only, refresh
// returns the record unchanged.
func (s *tree) refresh(ctx context.Context, e record.Entry) (record.Entry, error) {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return e, ctx.Err()
	}
	defer unlock()
	e, err = s.lookup(e.Session, e.ID)
	if err != nil {
		return e, err
	}
	before := e
	if s.life.Refresh(&e) && s.save(e) != nil {
		return before, nil
	}
	return e, nil
}

// open opens the content of a record. If that is damaged, a Put or a removal may be between its two files: open looks again when it has ended.
func (s *tree) open(ctx context.Context, rec offload.Record) (offload.Content, error) {
	c, err := s.openNow(rec)
	if errors.Is(err, offload.ErrCorrupt) {
		if unlock, failed := s.dir.lock(ctx, rec.Session+"/"+rec.ID); failed == nil {
			defer unlock()
			return s.openNow(rec)
		}
	}
	return c, err
}

func (s *tree) openNow(rec offload.Record) (offload.Content, error) {
	e, err := s.lookup(rec.Session, rec.ID)
	if err != nil {
		return nil, err
	}
	if e.Digest != rec.Digest {
		return nil, fmt.Errorf("the id has another content: %w", offload.ErrNotFound)
	}
	var x index.Index
	if err := x.UnmarshalBinary(e.Index); err != nil {
		return nil, fmt.Errorf("its record is damaged: %w", offload.ErrCorrupt)
	}
	f, info, err := s.dir.open(s.contentPath(e.Session, e.ID))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("its content is missing: %w", offload.ErrCorrupt)
	case err != nil:
		return nil, err
	case info.Size() != x.Size():
		return nil, errors.Join(fmt.Errorf("it has %d bytes instead of %d: %w", info.Size(), x.Size(), offload.ErrCorrupt), f.Close())
	}
	return record.NewContent(f, &x), nil
}

// entries yields the records of a session, or of all sessions, and an error for each that it cannot read. It ignores
// the records in a copy of another session's directory. The order is random, so that sweeps of processes that end soon
// see all of them in the course of time.
func (s *tree) entries(ctx context.Context, session string) iter.Seq2[record.Entry, error] {
	return func(yield func(record.Entry, error) bool) {
		dirs, err := s.sessionDirs(session)
		if err != nil && !yield(record.Entry{}, err) {
			return
		}
		rand.Shuffle(len(dirs), func(i, j int) { dirs[i], dirs[j] = dirs[j], dirs[i] })
		for _, dir := range dirs {
			files, err := s.dir.list(dir)
			if err != nil && !yield(record.Entry{}, err) {
				return
			}
			rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
			for _, file := range files {
				if ctx.Err() != nil {
					yield(record.Entry{}, ctx.Err())
					return
				}
				if !isRecord(file.Name()) {
					continue
				}
				name := dir + "/" + file.Name()
				e, err := s.loadFile(name)
				deleted, copied := errors.Is(err, fs.ErrNotExist), err == nil && s.recordPath(e.Session, e.ID) != name
				if !deleted && !copied && !yield(e, err) {
					return
				}
			}
		}
	}
}

// sessionDirs returns the directory of a session, or those of all sessions.
func (s *tree) sessionDirs(session string) ([]string, error) {
	if session != "" {
		return []string{fileName(session, s.caseInsensitive)}, nil
	}
	var dirs []string
	entries, err := s.dir.list(".")
	for _, e := range entries {
		if e.IsDir() && isFileName(e.Name()) {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs, err
}
