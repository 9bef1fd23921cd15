package process

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// dataFormat is the format of the data directory: the files of JetStream, the
// credential, and the state file.
var dataFormat = durable.Format{Name: "data directory", Version: 1}

// CheckData returns an error if a data directory has another format. It refuses streams without a
// format version: a mark would claim that this version can read them. marked is false if the
// directory is new.
func CheckData(dir string) (marked bool, err error) {
	marked, err = dataFormat.Check(dir)
	if err != nil || marked {
		return marked, err
	}
	if _, err := os.Lstat(filepath.Join(dir, "jetstream")); err == nil {
		return false, &durable.FormatError{Dir: dir,
			Problem: fmt.Sprintf("has streams but no format version: the file %s was lost, or an unreleased version of Stevedore wrote the directory", durable.FormatFile),
			Advice:  "use another directory, or restore the file from a backup; " + dataFormat.Repair()}
	}
	return false, nil
}

// openData checks the format of a data directory, which the caller has locked, and marks a new one.
func openData(dir string) error {
	marked, err := CheckData(dir)
	if err != nil || marked {
		return err
	}
	return dataFormat.Mark(dir)
}
