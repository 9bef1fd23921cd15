package disk

import (
	"fmt"
	"strings"

	"github.com/stevedore-bus/stevedore/state/durable"
)

// format is the format of the store's directory. Version 1 kept records in extended
// attributes, which copies of a directory often lose.
var format = durable.Format{Name: "artifact store", Version: 2}

// openFormat checks the format of the directory at path, and marks a new one. A directory with
// other files is a *durable.FormatError. Hidden ones do not count, except in the directories whose
// leftovers a store removes.
func openFormat(path string, d *dir) error {
	entries, err := d.list(".") // before the check: every store marks its directory before it writes anything else
	if err != nil {
		return err
	}
	for _, own := range []string{blobDir, tempDir} {
		inside, _ := d.list(own) // what cannot be listed fails when it is used
		entries = append(entries, inside...)
	}
	marked, err := format.Check(path)
	if err != nil || marked {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || name == durable.FormatFile || name == "lost+found" { // of the file system
			continue
		}
		return &durable.FormatError{Dir: path,
			Problem: fmt.Sprintf("contains %.100q, but no artifact store with a format version", name),
			Advice:  fmt.Sprintf("this program reads version %d; use a new directory, such as one in this directory; %s", format.Version, format.Repair())}
	}
	return format.Mark(path)
}
