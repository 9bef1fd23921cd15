package disk

import (
	"fmt"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// format is the format of the store's directory. Version 1 kept records in extended
// attributes, which copies of a directory often lose.
var format = durable.Format{Name: "artifact store", Version: 2}

// openFormat checks the format of the directory at path, and marks a new one. A directory
// that contains a store without a version is a *durable.FormatError.
func openFormat(path string, d *dir) error {
	blobs, err := d.list(blobDir) // before the check: every store marks its directory before it writes a blob
	if err != nil {
		return err
	}
	marked, err := format.Check(path)
	switch {
	case err != nil || marked:
		return err
	case len(blobs) > 0:
		return &durable.FormatError{Dir: path,
			Problem: "contains an artifact store without a format version, which an unreleased version of Stevedore wrote",
			Advice: fmt.Sprintf("this program reads version %d; move the directory aside (its contents stay readable as files, %s) or use another directory",
				format.Version, filepath.Join("SESSION", "ID"+contentSuffix))}
	}
	return format.Mark(path)
}
