package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Get implements Store.
func (s *Store) Get(ctx context.Context, session, id string) (offload.Record, error) {
	e, err := s.lookup(session, id)
	if moved := e; err == nil && s.life.Refresh(&moved) {
		e, err = s.renew(ctx, e)
	}
	if err != nil {
		return offload.Record{}, fmt.Errorf("get artifact %q: %w", id, err)
	}
	return e.Record, nil
}

// lookup reads a record that is not expired.
func (s *Store) lookup(session, id string) (record.Entry, error) {
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

// renew writes the moved expiry, if the record is still that one. A directory
// that cannot be written to can still be read.
func (s *Store) renew(ctx context.Context, e record.Entry) (record.Entry, error) {
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

// Open implements Store.
func (s *Store) Open(_ context.Context, rec offload.Record) (offload.Content, error) {
	c, err := s.open(rec)
	if err != nil {
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, err)
	}
	return c, nil
}

func (s *Store) open(rec offload.Record) (offload.Content, error) {
	e, err := s.lookup(rec.Session, rec.ID)
	if err != nil {
		return nil, err
	}
	if e.Digest != rec.Digest {
		return nil, fmt.Errorf("the id has another content now: %w", offload.ErrNotFound)
	}
	blob, ok := blobPath(e.Digest)
	var x index.Index
	if err := x.UnmarshalBinary(e.Index); err != nil || !ok {
		return nil, fmt.Errorf("its record is damaged: %w", offload.ErrCorrupt)
	}
	f, info, err := s.dir.open(blob)
	if errors.Is(err, fs.ErrNotExist) { // lost in a crash: see Store
		f, info, err = s.dir.open(s.contentPath(e.Session, e.ID))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("its bytes are gone: %w", offload.ErrCorrupt)
	case err != nil:
		return nil, err
	case info.Size() != x.Size():
		return nil, errors.Join(fmt.Errorf("it has %d bytes instead of %d: %w", info.Size(), x.Size(), offload.ErrCorrupt), f.Close())
	}
	return record.NewContent(f, &x), nil
}

// List implements Store.
func (s *Store) List(ctx context.Context, session string) iter.Seq2[offload.Record, error] {
	return func(yield func(offload.Record, error) bool) {
		recs, err := s.list(ctx, session)
		for _, rec := range recs {
			if !yield(rec, nil) {
				return
			}
		}
		if err != nil {
			yield(offload.Record{}, fmt.Errorf("list artifacts: %w", err))
		}
	}
}

// list returns what can be read, and an error for what cannot.
func (s *Store) list(ctx context.Context, session string) (recs []offload.Record, err error) {
	err = s.each(ctx, session, func(name string, e record.Entry) error {
		// Somebody may have copied a session's directory: that is no artifact.
		if !s.life.Expired(&e) && (name == s.recordPath(e.Session, e.ID) || name == s.contentPath(e.Session, e.ID)) {
			recs = append(recs, e.Record)
		}
		return nil
	})
	slices.SortFunc(recs, record.OldestFirst)
	return recs, err
}

// each calls f for each record of a session, or of all, and the file that it is
// in. It goes on after what it cannot read, and returns the errors.
func (s *Store) each(ctx context.Context, session string, f func(name string, e record.Entry) error) error {
	dirs, err := s.sessionDirs(session)
	for _, dir := range dirs {
		err = errors.Join(err, s.eachIn(ctx, dir, f))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}

// sessionDirs are the directories of a session, or of all.
func (s *Store) sessionDirs(session string) ([]string, error) {
	if session != "" {
		return []string{diskName(session, s.folds)}, nil
	}
	var dirs []string
	entries, err := s.dir.names(".")
	for _, e := range entries {
		if e.IsDir() && isDiskName(e.Name()) {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs, err
}

func (s *Store) eachIn(ctx context.Context, dir string, f func(name string, e record.Entry) error) error {
	files, failed := s.dir.names(dir)
	hasFile := map[string]bool{}
	for _, file := range files {
		if id, ok := recordName(file.Name()); ok {
			hasFile[id] = true
		}
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := dir + "/" + file.Name()
		var e record.Entry
		var err error
		if _, ok := recordName(file.Name()); ok {
			e, err = s.loadFile(name)
		} else if id, ok := contentName(file.Name()); ok && !hasFile[id] && file.Type().IsRegular() {
			if e, err = s.loadAttached(name); errors.Is(err, fs.ErrNotExist) {
				name = dir + "/" + recordPrefix + id + recordSuffix // if it came since
				e, err = s.loadFile(name)
			}
		} else {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile, or not ours
		}
		if err == nil {
			err = f(name, e)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
