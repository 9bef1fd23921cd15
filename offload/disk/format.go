package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// format is the format of the store's directory. A later version adds its upgrade here;
// openFormat must then hold a lock, because several processes share the directory.
var format = durable.Format{Name: "artifact store", Version: 1}

// openFormat checks the format of the directory at path, and marks a new one. A directory
// that contains a store without a version is a *durable.FormatError.
func openFormat(path string, d *dir) error {
	marked, err := format.Check(path)
	if err != nil || marked {
		return err
	}
	used, err := d.hasStore()
	if err != nil {
		return err
	}
	if used {
		// Another process may have marked the directory and stored a content meanwhile.
		if marked, err = format.Check(path); err != nil || marked {
			return err
		}
		return &durable.FormatError{Dir: path,
			Problem: "contains an artifact store without a format version, which an unreleased version of Stevedore wrote",
			Advice: fmt.Sprintf("this program reads version %d; move the directory aside (its contents stay readable as files, %s) or choose another one with --store disk:DIR",
				format.Version, filepath.Join("SESSION", "ID"+contentSuffix))}
	}
	return format.Mark(path)
}

// hasStore reports whether the directory contains a blob or a record. Other files, which
// belong to people and other programs, do not count.
func (d *dir) hasStore() (bool, error) {
	blobs, err := d.list(blobDir)
	if err != nil || len(blobs) > 0 {
		return len(blobs) > 0, err
	}
	sessions, err := d.list(".")
	if err != nil {
		return false, err
	}
	for _, session := range sessions {
		if !session.IsDir() || !isFileName(session.Name()) {
			continue
		}
		files, err := d.list(session.Name())
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return false, err
		}
		for _, f := range files {
			if strings.HasPrefix(f.Name(), recordPrefix) && strings.HasSuffix(f.Name(), recordSuffix) {
				return true, nil
			}
		}
	}
	return false, nil
}
