package offload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/internal/blocks"
)

// Get implements Store.
func (s *DiskStore) Get(ctx context.Context, session, id string) (Record, error) {
	e, err := s.entry(session, id)
	if moved := e; err == nil && s.cfg.refresh(&moved, s.cfg.now()) {
		e, err = s.renew(ctx, e)
	}
	if err != nil {
		return Record{}, fmt.Errorf("get artifact %q: %w", id, err)
	}
	return e.Record, nil
}

// entry reads a record that is not expired.
func (s *DiskStore) entry(session, id string) (entry, error) {
	if err := noSuch(session, id); err != nil {
		return entry{}, err
	}
	e, err := s.load(session, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return entry{}, ErrNotFound
	case err != nil:
		return entry{}, err
	case e.expired(s.cfg.now()):
		return entry{}, ErrExpired
	}
	return e, nil
}

// renew writes the moved expiry, if the record is still that one. A directory
// that cannot be written to can still be read.
func (s *DiskStore) renew(ctx context.Context, e entry) (entry, error) {
	unlock, err := s.dir.lock(ctx, e.Session+"/"+e.ID)
	if err != nil {
		return e, ctx.Err()
	}
	defer unlock()
	e, err = s.entry(e.Session, e.ID)
	if err != nil {
		return e, err
	}
	before := e
	if s.cfg.refresh(&e, s.cfg.now()) && s.save(e) != nil {
		return before, nil
	}
	return e, nil
}

// Open implements Store.
func (s *DiskStore) Open(_ context.Context, rec Record) (Content, error) {
	c, err := s.open(rec)
	if err != nil {
		return nil, fmt.Errorf("open artifact %q: %w", rec.ID, err)
	}
	return c, nil
}

func (s *DiskStore) open(rec Record) (Content, error) {
	e, err := s.entry(rec.Session, rec.ID)
	if err != nil {
		return nil, err
	}
	if e.Digest != rec.Digest {
		return nil, fmt.Errorf("the id has another content now: %w", ErrNotFound)
	}
	blob, ok := blobPath(e.Digest)
	var x index.Index
	if err := x.UnmarshalBinary(e.Index); err != nil || !ok {
		return nil, fmt.Errorf("its record is damaged: %w", ErrCorrupt)
	}
	f, info, err := s.dir.open(blob)
	if errors.Is(err, fs.ErrNotExist) { // lost in a crash: see DiskStore
		f, info, err = s.dir.open(s.contentPath(e.Session, e.ID))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("its bytes are gone: %w", ErrCorrupt)
	case err != nil:
		return nil, err
	case info.Size() != x.Size():
		return nil, errors.Join(fmt.Errorf("it has %d bytes instead of %d: %w", info.Size(), x.Size(), ErrCorrupt), f.Close())
	}
	return blocks.NewContent(f, &x), nil
}

// List implements Store.
func (s *DiskStore) List(ctx context.Context, session string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		recs, err := s.list(ctx, session)
		for _, rec := range recs {
			if !yield(rec, nil) {
				return
			}
		}
		if err != nil {
			yield(Record{}, fmt.Errorf("list artifacts: %w", err))
		}
	}
}

// list returns what can be read, and an error for what cannot.
func (s *DiskStore) list(ctx context.Context, session string) (recs []Record, err error) {
	now := s.cfg.now()
	err = s.each(ctx, session, func(name string, e entry) error {
		// Somebody may have copied a session's directory: that is no artifact.
		if !e.expired(now) && (name == s.recordPath(e.Session, e.ID) || name == s.contentPath(e.Session, e.ID)) {
			recs = append(recs, e.Record)
		}
		return nil
	})
	slices.SortFunc(recs, oldestFirst)
	return recs, err
}

// each calls f for each record of a session, or of all, and the file that it is
// in. It goes on after what it cannot read, and returns the errors.
func (s *DiskStore) each(ctx context.Context, session string, f func(name string, e entry) error) error {
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
func (s *DiskStore) sessionDirs(session string) ([]string, error) {
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

func (s *DiskStore) eachIn(ctx context.Context, dir string, f func(name string, e entry) error) error {
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
		var e entry
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
