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
// needs no lock.
func (f *File) load() (*document, error) {
	seen := f.seen.Load()
	data, err := readFile(f.path)
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
		return seen.doc, nil
	}
	doc, err := parseDocument(data)
	if err != nil {
		return seen.doc, err
	}
	f.seen.Store(&snapshot{data, doc})
	return doc, nil
}

// readFile reads a regular file that is not too large.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("not a regular file but %s", info.Mode().Type())
	case info.Size() > 2*maxFileSize:
		return nil, &corruptError{fmt.Errorf("%d bytes are too many", info.Size())}
	}
	return os.ReadFile(path)
}

// loadLocked is load for a caller that holds the lock. It moves a corrupt file
// aside and returns the last document that was not corrupt.
func (f *File) loadLocked() (*document, error) {
	doc, err := f.load()
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
		Int("facts_kept", len(doc.Facts)).Msg("state file was corrupt and moved aside")
	return doc, nil
}
