package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/stevedore-bus/stevedore/offload"
	"github.com/stevedore-bus/stevedore/offload/index"
	"github.com/stevedore-bus/stevedore/offload/record"
)

// Store is a Store in a directory, which several processes may share:
//
//	<session>/<id>.md              the content, for people and other programs
//	<session>/.<id>.artifact.json  the record and the content's index; those of a
//	                               new content are an attribute of it at first
//	.blobs/<sha256>                the content by its digest, to find equal bytes
//
// Content files are read-only and linked, not copied, where the file system
// can; a file without a record is not the store's and is left alone.
//
// What a Put returns is durable in the session's directory alone: a crash of
// the machine may cost a name in .blobs, and then the content is read from the
// session until a sweep, or the next Put of the id, gives it that name again.
type Store struct {
	life  record.Lifecycle
	dir   *diskDir
	folds bool // the disk takes "a" and "A" for one name
	links bool // where the file system has hard links; tests turn it off
}

const blobDir = ".blobs"

// OpenDisk opens the store in dir, which is created if it is missing.
func Open(dir string, cfg offload.StoreConfig) (*Store, error) {
	d, err := openDiskDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifact directory %q: %w", dir, err)
	}
	s := &Store{life: record.NewLifecycle(cfg), dir: d, links: true}
	if err = d.mkdir(blobDir); err == nil {
		s.folds, err = d.foldsCase()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open artifact directory %q: %w", dir, err), s.Close())
	}
	return s, nil
}

// Close gives the directory back. Contents that are open stay usable.
func (s *Store) Close() error { return s.dir.close() }

// Put implements Store.
func (s *Store) Put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	out, err := s.put(ctx, rec, src, summarize)
	if err != nil && isDiskFull(err) {
		err = fmt.Errorf("the disk is full, nothing was stored: %w", err)
	}
	if err != nil {
		return offload.Record{}, fmt.Errorf("put artifact %q: %w", rec.ID, err)
	}
	return out, nil
}

func (s *Store) put(ctx context.Context, rec offload.Record, src io.Reader, summarize func(*offload.Record, offload.Content) error) (offload.Record, error) {
	if err := record.CheckKey(rec.Session, rec.ID); err != nil {
		return rec, err
	}
	f, err := s.dir.temp()
	if err != nil {
		return rec, err
	}
	defer f.discard() // but for its name if it became the blob
	w := &writeback{file: f.File}
	defer w.running.Wait()
	in, err := s.spool(ctx, w, src)
	if err != nil {
		return rec, err
	}
	s.life.Complete(&rec, in.Index, in.Digest)
	if summarize != nil {
		if err := summarize(&rec, record.NewContent(f.File, in.Index)); err != nil {
			return rec, fmt.Errorf("summarize: %w", err)
		}
	}
	x, err := in.Index.MarshalBinary()
	if err != nil {
		return rec, err
	}
	// The disk is waited for twice: first for the bytes, then for the names,
	// which are in one directory. A crash of the machine between the two may
	// leave any of the names; nobody has heard of them yet, and the next Put of
	// the id gives them all again.
	e := record.Entry{Record: rec, Index: x}
	attached := s.attach(w, e)
	var staged *tempFile
	if !attached { // then there are two files to wait for, at the same time
		if staged, err = s.stage(e); err != nil {
			return rec, err
		}
		defer staged.discard() // but for its name if it became the record
	}
	if err := errors.Join(f.Chmod(0o400), w.wait()); err != nil {
		return rec, err
	}
	fresh, err := s.keep(ctx, f, in)
	if err != nil {
		return rec, err
	}
	if !attached || !fresh {
		return s.addRecord(ctx, e, nil, staged)
	}
	return s.addRecord(ctx, e, f, nil)
}

// spool writes the source to a file that nobody sees yet. When it is written,
// the disk is at work on it.
func (s *Store) spool(ctx context.Context, w *writeback, src io.Reader) (*record.Ingested, error) {
	var size int64
	in, err := record.Ingest(ctx, src, func(block []byte) error {
		size += int64(len(block))
		// Content that is there already needs no room, and what it is shows
		// only at its end; so the source may be as large as the quota.
		if s.life.Quota > 0 && size > s.life.Quota {
			return s.checkQuota(size)
		}
		return w.write(block)
	})
	if err != nil {
		return nil, err
	}
	in.Release()
	return in, nil
}

// keep makes a blob of the temporary file, or renews the one that is there;
// fresh tells which.
func (s *Store) keep(ctx context.Context, f *tempFile, in *record.Ingested) (fresh bool, err error) {
	unlock, err := s.dir.lock(ctx, in.Digest)
	if err != nil {
		return false, err
	}
	defer unlock()
	blob, now := blobDir+"/"+in.Digest, s.life.Now()
	switch sound, err := s.sound(blob, in.Index); {
	case err != nil:
		return false, err
	case sound:
		return false, s.dir.root.Chtimes(blob, now, now)
	}
	if err := s.checkQuota(in.Index.Size()); err != nil {
		return false, err
	}
	// The time of the last write will do, unless that was long ago or the store
	// goes by another clock.
	if info, err := f.Stat(); err != nil || now.Sub(info.ModTime()).Abs() > time.Second {
		if err := s.dir.root.Chtimes(f.name, now, now); err != nil {
			return false, err
		}
	}
	return true, f.become(blob)
}

// sound reports whether a blob is there and what it should be. One that rotted
// is replaced by the Put that finds it.
func (s *Store) sound(blob string, x *index.Index) (bool, error) {
	f, info, err := s.dir.open(blob)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info.Size() != x.Size() {
		return false, nil
	}
	buf := make([]byte, index.BlockSize)
	for i := range x.Blocks() {
		n, err := f.ReadAt(buf[:x.BlockLen(i)], int64(i)*index.BlockSize)
		if err != nil || x.Check(i, buf[:n]) != nil {
			return false, nil
		}
	}
	return true, nil
}

// checkQuota returns ErrQuota if so many more bytes exceed the quota.
func (s *Store) checkQuota(more int64) error {
	if s.life.Quota <= 0 {
		return nil
	}
	var used int64
	entries, err := s.dir.names(blobDir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			used += info.Size()
		}
	}
	return errors.Join(err, s.life.CheckQuota(used, more))
}
