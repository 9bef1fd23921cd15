// Package disk is an artifact store in a directory.
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

// Store is an offload.Store in a directory. Several processes may share it:
//
//	<session>/<id>.md              the content, for people and other programs
//	<session>/.<id>.artifact.json  the record with the index of the content; the record
//	                               of a new content is an extended attribute at first
//	.blobs/<sha256>                the content by its digest, to find equal contents
//	stevedore.format               the version of this format
//
// Content files are read-only. They are hard links to the blob, or copies if the file
// system has no links. The store does not touch files without a record.
//
// A Put makes only the session's directory durable. A power loss may remove the link in
// .blobs. The store then reads the content from the session, until a sweep or the next
// Put of the id creates the blob again.
type Store struct {
	life            record.Lifecycle
	dir             *dir
	caseInsensitive bool
	links           bool // use hard links if possible; tests turn it off
}

// Open opens the store in the directory at path, which it creates if necessary.
func Open(path string, cfg offload.StoreConfig) (*Store, error) {
	d, err := openDir(path)
	if err != nil {
		return nil, fmt.Errorf("open artifact directory %q: %w", path, err)
	}
	s := &Store{life: record.NewLifecycle(cfg), dir: d, links: true}
	if err = d.mkdir(blobDir); err == nil {
		s.caseInsensitive, err = d.caseInsensitive()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open artifact directory %q: %w", path, err), s.Close())
	}
	return s, nil
}

// Close closes the directory. Open contents stay readable.
func (s *Store) Close() error { return s.dir.close() }

// Put implements offload.Store.
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
	f, err := s.dir.createTemp()
	if err != nil {
		return rec, err
	}
	defer f.Discard() // removes nothing if f was renamed to the blob
	w := &writeback{file: f.File}
	defer w.running.Wait()
	in, err := s.writeContent(ctx, w, src)
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
	// Put waits for the disk twice: for the bytes, and then for the names, which are in
	// one directory. A power loss between the two may keep any of the names. No caller
	// knows them yet, and the next Put of the id creates all of them again.
	e := record.Entry{Record: rec, Index: x}
	attached := s.attach(w, e)
	var recordFile *tempFile
	if !attached { // then Put syncs two files, at the same time
		if recordFile, err = s.writeTempRecord(e); err != nil {
			return rec, err
		}
		defer recordFile.Discard() // removes nothing if it was renamed
	}
	if err := errors.Join(f.Chmod(0o400), w.wait()); err != nil {
		return rec, err
	}
	isNew, err := s.addBlob(ctx, f, in)
	if err != nil {
		return rec, err
	}
	if !attached || !isNew {
		return s.addRecord(ctx, e, nil, recordFile)
	}
	return s.addRecord(ctx, e, f, nil)
}

// writeContent writes the source to a temporary file. When it returns, the disk is
// already writing the bytes.
func (s *Store) writeContent(ctx context.Context, w *writeback, src io.Reader) (*record.Ingested, error) {
	var size int64
	in, err := record.Ingest(ctx, src, func(block []byte) error {
		size += int64(len(block))
		// The content may be stored already, which is known only after its last byte.
		// Only a content larger than the quota cannot be stored.
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

// addBlob renames the temporary file to the blob, or marks the existing blob as young
// again. It reports whether the blob is new.
func (s *Store) addBlob(ctx context.Context, f *tempFile, in *record.Ingested) (isNew bool, err error) {
	unlock, err := s.dir.lock(ctx, in.Digest)
	if err != nil {
		return false, err
	}
	defer unlock()
	blob, now := blobDir+"/"+in.Digest, s.life.Now()
	switch intact, err := s.isIntact(blob, in.Index); {
	case err != nil:
		return false, err
	case intact:
		return false, s.dir.Root.Chtimes(blob, now, now)
	}
	if s.life.Quota > 0 { // no other Put may add a blob between the check and the rename
		unlock, err := s.dir.lockQuota(ctx)
		if err != nil {
			return false, err
		}
		defer unlock()
	}
	if err := s.checkQuota(in.Index.Size()); err != nil {
		return false, err
	}
	// The modification time of the file is recent, unless the Put was slow or the
	// store uses another clock.
	if info, err := f.Stat(); err != nil || now.Sub(info.ModTime()).Abs() > time.Second {
		if err := s.dir.Root.Chtimes(f.name, now, now); err != nil {
			return false, err
		}
	}
	return true, s.dir.retryRename(blob, f.Rename)
}

// isIntact reports whether a file exists and has the content that x describes. A Put
// replaces a damaged blob.
func (s *Store) isIntact(name string, x *index.Index) (bool, error) {
	f, info, err := s.dir.open(name)
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

// checkQuota returns ErrQuota if more bytes exceed the quota.
func (s *Store) checkQuota(more int64) error {
	if s.life.Quota <= 0 {
		return nil
	}
	var used int64
	entries, err := s.dir.list(blobDir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			used += info.Size()
		}
	}
	return errors.Join(err, s.life.CheckQuota(used, more))
}
