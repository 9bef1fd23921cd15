package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// snapshot is a state of the file.
type snapshot struct {
	data []byte // nil if there is no file
	doc  *document
}

// read returns the facts on the disk.
func (f *File) read() (*document, error) {
	seen := f.seen.Load()
	doc, data, err := load(f.path, seen)
	var corrupt *corruptError
	switch {
	case errors.As(err, &corrupt):
		return seen.doc, nil
	case err != nil:
		return nil, err
	case doc != seen.doc:
		f.seen.Store(&snapshot{data, doc})
	}
	return doc, nil
}

// refresh is read under the lock: it moves a corrupt file aside and goes on
// from what was last seen.
func (f *File) refresh() (*document, error) {
	seen := f.seen.Load()
	doc, data, err := load(f.path, seen)
	var corrupt *corruptError
	if errors.As(err, &corrupt) {
		aside, err := moveAside(f.path)
		if err != nil {
			return nil, fmt.Errorf("%w; moving it aside: %w", corrupt, err)
		}
		// What it held lives on here until the next save, even if that fails.
		f.seen.Store(&snapshot{doc: seen.doc})
		f.config.Log.Error().Err(corrupt).Str("path", f.path).Str("moved_to", aside).
			Int("facts_kept", len(seen.doc.facts)).Msg("state file was corrupt and moved aside")
		return seen.doc, nil
	}
	if err != nil {
		return nil, err
	}
	if doc != seen.doc {
		f.seen.Store(&snapshot{data, doc})
	}
	return doc, nil
}

// corruptError says that a file was read and is not a document.
type corruptError struct{ reason error }

func (e *corruptError) Error() string { return "the file is corrupt: " + e.reason.Error() }
func (e *corruptError) Unwrap() error { return e.reason }

// load reads and parses the file, unless it is what was last seen. Renames make
// it whole at any moment, so no lock is needed to read.
func load(path string, seen *snapshot) (*document, []byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if seen.data == nil {
			return seen.doc, nil, nil
		}
		return &document{}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("not a regular file but %s", info.Mode().Type())
	}
	if info.Size() > 2*maxFileSize {
		return nil, nil, &corruptError{fmt.Errorf("%d bytes are too many", info.Size())}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if seen.data != nil && bytes.Equal(data, seen.data) {
		return seen.doc, seen.data, nil
	}
	doc, err := parseDocument(data)
	if err != nil {
		return nil, nil, &corruptError{err}
	}
	return doc, data, nil
}

// moveAside renames a corrupt file to a name that is not taken.
func moveAside(path string) (string, error) {
	aside := path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%q is taken", aside)
	}
	return aside, os.Rename(path, aside)
}
