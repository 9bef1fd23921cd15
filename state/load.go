package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// snapshot is the file at one time.
type snapshot struct {
	data []byte // nil if there is no file
	doc  *document
	// info describes the file that was read. It is nil if a later file could look the same.
	info fs.FileInfo
}

// settleTime is longer than the resolution of the times of files. A file that was changed
// within this time before it was read may change again with the same time, size and inode.
const settleTime = 3 * time.Second

// isFile reports whether the snapshot is that of the file that info describes.
func (s *snapshot) isFile(info fs.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime())
}

// settled returns info if every later change of the file will be visible in it.
func settled(info fs.FileInfo, now time.Time) fs.FileInfo {
	if now.Sub(info.ModTime()) < settleTime {
		return nil
	}
	return info
}

// corruptError means that the file was read but is not a document.
type corruptError struct{ reason error }

func (e *corruptError) Error() string { return "the file is corrupt: " + e.reason.Error() }
func (e *corruptError) Unwrap() error { return e.reason }

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*corruptError](err)
	return ok
}

// load returns the facts on disk. If it returns a *corruptError, the document is
// the last one that was not corrupt. A rename replaces the file whole, so reading
// needs no lock. A file that has not changed since the last load is not read again, except
// with always.
func (f *File) load(always bool) (*document, error) {
	seen := f.seen.Load()
	now := time.Now()
	info, err := statFile(f.path)
	if err == nil && !always && seen.isFile(info) {
		return seen.doc, nil
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(f.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if seen.data != nil {
			seen = &snapshot{doc: &document{}}
			f.seen.Store(seen)
		}
		return seen.doc, nil
	case err != nil:
		return seen.doc, err
	case seen.data != nil && bytes.Equal(data, seen.data):
		if info = settled(info, now); info != nil {
			f.seen.CompareAndSwap(seen, &snapshot{seen.data, seen.doc, info})
		}
		return seen.doc, nil
	}
	doc, err := parseDocument(data)
	if _, ok := errors.AsType[*versionError](err); ok { // not corrupt: the file stays as it is
		return seen.doc, err
	}
	if err != nil {
		return seen.doc, &corruptError{err}
	}
	f.seen.Store(&snapshot{data, doc, settled(info, now)})
	return doc, nil
}

// statFile describes the file at path, if it is one that load can read.
func statFile(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file but %s", info.Mode().Type())
	}
	if info.Size() > 2*maxFileSize {
		return nil, &corruptError{fmt.Errorf("%d bytes are too many", info.Size())}
	}
	return info, nil
}

// loadLocked is load for a caller that holds the lock. It moves a corrupt file
// aside and returns the last document that was not corrupt.
func (f *File) loadLocked() (*document, error) {
	doc, err := f.load(true)
	if !isCorrupt(err) {
		return doc, err
	}
	aside := f.path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if _, statErr := os.Lstat(aside); !errors.Is(statErr, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; %q exists already", err, aside)
	}
	if renameErr := os.Rename(f.path, aside); renameErr != nil {
		return nil, fmt.Errorf("%w; moving it aside: %w", err, renameErr)
	}
	// The facts stay in memory until the next save, even if that fails.
	f.seen.Store(&snapshot{doc: doc})
	f.config.Log.Error().Err(err).Str("path", f.path).Str("moved_to", aside).
		Int("facts_kept", len(doc.facts)).Msg("state file was corrupt and moved aside")
	return doc, nil
}
